#include "io/checkpoint/agree.hpp"

#include <span>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::io {
namespace {

// One character says what follows.
constexpr char success = '+';
constexpr char input_failure = 'i';
constexpr char io_failure = 'e';

std::string encode(const std::optional<Failure>& failure, const std::string& text) {
  if (!failure) return success + text;
  return (failure->input ? input_failure : io_failure) + failure->text;
}

std::optional<Failure> decode(const std::vector<std::byte>& bytes, std::string& text) {
  const std::string message(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (message.empty()) throw ContractError("verdict of a rank: empty; expected a message");
  if (message.front() != success) return Failure{message.front() == input_failure, message.substr(1)};
  text = message.substr(1);
  return std::nullopt;
}

OperationLabel label(const std::string& operation) {
  return {operation, "", "checkpoint"};
}

}  // namespace

void Failure::raise() const {
  if (input) throw InputError(text);
  throw IoError(text);
}

std::optional<Failure> attempt(const std::function<void()>& body) {
  try {
    body();
    return std::nullopt;
  } catch (const InputError& error) {
    return Failure{true, error.what()};
  } catch (const std::exception& error) {
    return Failure{false, error.what()};
  }
}

std::optional<Failure> agree(Communicator& communicator, const std::string& operation,
                             const std::optional<Failure>& mine) {
  const std::string message = encode(mine, "");
  const auto all = communicator.all_gather(Purpose::other, std::as_bytes(std::span(message)), label(operation));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    std::string text;
    auto failure = decode(all[rank], text);
    if (!failure) continue;
    if (all.size() > 1) failure->text = fmt::format("rank {}: {}", rank, failure->text);
    return failure;
  }
  return std::nullopt;
}

std::optional<Failure> from_rank_zero(Communicator& communicator, const std::string& operation,
                                      const std::function<std::string()>& body, std::string& text) {
  std::string message;
  if (communicator.rank() == 0) {
    std::string result;
    const auto failure = attempt([&] { result = body(); });
    message = encode(failure, result);
  }
  return decode(communicator.broadcast(Purpose::other, std::as_bytes(std::span(message)), 0, label(operation)), text);
}

}  // namespace matrixfsdp::io
