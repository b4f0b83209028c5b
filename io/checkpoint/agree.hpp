#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include <matrixfsdp/comm/communicator.hpp>

/// One verdict for all ranks: what a rank does alone may fail, and then all ranks must leave together.
namespace matrixfsdp::io {

/// An exception as it travels between ranks.
struct Failure {
  bool input = false;  ///< InputError, else IoError
  std::string text;

  [[noreturn]] void raise() const;
};

/// Runs `body`, which must not communicate. Nothing where it returns; any exception as a Failure.
std::optional<Failure> attempt(const std::function<void()>& body);

/// The failure of the first rank that has one ("rank 2: ..."), on every rank.
std::optional<Failure> agree(Communicator& communicator, const std::string& operation,
                             const std::optional<Failure>& mine);

/// Rank 0 runs `body`; every rank gets the text that it returned in `text`, or its failure.
std::optional<Failure> from_rank_zero(Communicator& communicator, const std::string& operation,
                                      const std::function<std::string()>& body, std::string& text);

/// A communicator with another deadline, while this lives.
class Patience {
 public:
  Patience(Communicator& communicator, std::chrono::milliseconds deadline)
      : communicator_(communicator), before_(communicator.deadline()) {
    communicator_.set_deadline(deadline);
  }
  ~Patience() { communicator_.set_deadline(before_); }
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

 private:
  Communicator& communicator_;
  std::chrono::milliseconds before_;
};

}  // namespace matrixfsdp::io
