#include "apps/generate/generate.hpp"

#include <chrono>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <matrixfsdp/checkpoint/checkpoint.hpp>
#include <matrixfsdp/core/log.hpp>
#include <matrixfsdp/plan/planner.hpp>

#include "apps/generate/source.hpp"
#include "apps/train/prompt.hpp"

namespace matrixfsdp::generate {
namespace {

void print(const Command& command, const Source& source, const std::vector<std::int32_t>& prompt,
           const std::vector<std::int32_t>& tokens) {
  const std::string text = train::text_of(tokens, source.is_text);
  if (!command.json) {
    fmt::print("{}{}\n", train::text_of(prompt, source.is_text), text);
    return;
  }
  const nlohmann::json json{{"checkpoint", source.folder},
                            {"step", source.step},
                            {"seed", source.seed},
                            {"temperature", command.temperature},
                            {"prompt", prompt},
                            {"tokens", tokens},
                            {"text", text}};
  // Bytes that a young model makes need not be UTF-8.
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

int generate(Session& session, const Command& command) {
  Communicator& communicator = session.world();
  const Source source = find_source(communicator, command);
  const std::vector<std::int32_t> prompt =
      train::prompt_tokens(command.prompt, source.is_text, source.shape.vocabulary);
  const nccl::Attachment attachment = train::attach_backend(communicator, command.backend);
  ModelSpec spec = transformer_model(source.shape);
  Plan plan = make_plan(spec, communicator.size(), {});
  ShardedModel model(communicator, std::move(spec), std::move(plan), {});
  io::load_weights(source.folder, model);
  if (communicator.rank() == 0) {
    log_line(fmt::format("{}: step {}, vocabulary {}, up to {} tokens of context", source.folder, source.step,
                         source.shape.vocabulary, source.shape.sequence_length));
  }
  const std::vector<std::int32_t> tokens =
      train::sample(model, source.shape, prompt, {command.tokens, command.temperature, source.seed, source.step});
  if (communicator.rank() == 0) print(command, source, prompt, tokens);
  return exit_ok;
}

}  // namespace matrixfsdp::generate
