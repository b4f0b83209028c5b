#pragma once

#include <charconv>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::apps {

/// Options whose bad values are one line: name, value, expectation.
class OptionReader {
 public:
  explicit OptionReader(CLI::App& app) : app_(app) {}

  CLI::Option* integer(const std::string& name, std::int64_t& target, std::int64_t minimum, const std::string& help) {
    return text(name, help, std::to_string(target), [name, &target, minimum](const std::string& value) {
      std::int64_t parsed = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
      if (error != std::errc() || end != value.data() + value.size() || parsed < minimum) {
        throw InputError(fmt::format("{} '{}': expected an integer of at least {}", name, value, minimum));
      }
      target = parsed;
    });
  }

  CLI::Option* real(const std::string& name, double& target, double minimum, double maximum, const std::string& help) {
    return text(name, help, fmt::format("{}", target), [name, &target, minimum, maximum](const std::string& value) {
      double parsed = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
      const bool number = error == std::errc() && end == value.data() + value.size();
      if (!number || !(parsed >= minimum && parsed <= maximum)) {
        throw InputError(fmt::format("{} '{}': expected a number from {} to {}", name, value, minimum, maximum));
      }
      target = parsed;
    });
  }

  void flag(const std::string& name, bool& target, const std::string& help) { app_.add_flag(name, target, help); }

  /// One that has been added, by its name.
  [[nodiscard]] CLI::Option* option(const std::string& name) const { return app_.get_option(name); }

  CLI::Option* text(const std::string& name, const std::string& help, const std::string& shown_default,
                    const std::function<void(const std::string&)>& read) {
    CLI::Option* option = app_.add_option_function<std::string>(name, read, help);
    if (!shown_default.empty()) option->default_str(shown_default);
    option->take_last();
    return option;
  }

  CLI::Option* choice(const std::string& name, const std::string& help, const std::string& shown_default,
                      const std::map<std::string, std::function<void()>>& choices) {
    return text(name, help, shown_default, [name, choices](const std::string& value) {
      const auto found = choices.find(value);
      if (found == choices.end()) {
        std::vector<std::string> names;
        names.reserve(choices.size());
        for (const auto& entry : choices)
          names.push_back(entry.first);
        throw InputError(fmt::format("{} '{}': expected one of {}", name, value, fmt::join(names, ", ")));
      }
      found->second();
    });
  }

 private:
  CLI::App& app_;
};

}  // namespace matrixfsdp::apps
