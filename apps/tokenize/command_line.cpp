#include "apps/tokenize/command_line.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/version.hpp>

#include "apps/option_reader.hpp"
#include "apps/parse_arguments.hpp"

namespace matrixfsdp::tokenize {
namespace {

const char* const about =
    "Text to a token shard in llm.c's .bin format (256 words: magic number, version, number of tokens; then uint16 or\n"
    "uint32 tokens), for mfsdp-train --data or for llm.c. Tokens are bytes (vocabulary 256): there is no vocabulary "
    "of\n"
    "words here. Ids that another tokenizer has made are taken with --ids.\n"
    "Example: mfsdp-tokenize book.txt -o book.bin --validation 0.1\n";

}  // namespace

Command parse_command(int argc, char** argv) {
  Command command;
  CLI::App app(about);
  app.footer("Exit codes: 0; 2 for bad input, in one line on standard error: then there is no new file.");
  app.set_version_flag("--version", fmt::format("MatrixFSDP {}", version()));
  apps::OptionReader reader(app);
  app.add_option("FILES", command.files,
                 "Text files, and folders of them (sorted by name), one after another, with nothing between them");
  reader.text("-o,--output", "The shard, a new file with a name in .bin", "",
              [&command](const std::string& value) { command.output = value; });
  reader.real("--validation", command.validation, 0, 0.9,
              "Share of the tokens, the last ones, that goes to a file of its own: NAME_val.bin beside NAME.bin");
  app.add_flag("--ids", command.ids, "FILES hold token ids, as decimal numbers with blanks or ends of lines between");
  app.add_flag_callback(
      "--uint32", [&command] { command.format = io::TokenFormat::shard_uint32; },
      "Four bytes for a token instead of two, for ids beyond 65535 (the format of llm.c's Llama 3)");
  command.text_and_exit = apps::parse_arguments(app, argc, argv);
  if (!command.text_and_exit.empty()) return command;
  if (command.files.empty()) throw InputError("FILES '': expected at least one text file");
  if (command.output.empty()) throw InputError("-o '': expected the name of the shard, NAME.bin");
  return command;
}

}  // namespace matrixfsdp::tokenize
