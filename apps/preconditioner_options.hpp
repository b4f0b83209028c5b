#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/matrix_optimizer.hpp>

#include "apps/option_reader.hpp"

namespace matrixfsdp::apps {

/// Options that only some matrix optimizers read: given for another one, they are an error, not nothing.
class OptimizerOptions {
 public:
  void add(CLI::Option* option, std::vector<MatrixOptimizer> readers) {
    entries_.push_back({option, std::move(readers)});
  }

  /// Throws InputError for an option that was given and that `optimizer` does not read.
  void check(MatrixOptimizer optimizer) const {
    for (const Entry& entry : entries_) {
      if (entry.option->count() == 0 ||
          std::find(entry.readers.begin(), entry.readers.end(), optimizer) != entry.readers.end())
        continue;
      std::vector<std::string_view> names;
      for (const MatrixOptimizer reader : entry.readers)
        names.push_back(name_of(reader));
      const bool is_flag = entry.option->get_expected_max() == 0;
      throw InputError(fmt::format("{}{}: expected --optimizer {}, no other reads it", entry.option->get_name(),
                                   is_flag ? "" : fmt::format(" '{}'", entry.option->as<std::string>()),
                                   fmt::join(names, " or ")));
    }
  }

 private:
  struct Entry {
    CLI::Option* option;
    std::vector<MatrixOptimizer> readers;
  };

  std::vector<Entry> entries_;
};

/// What Shampoo and SOAP cost depends on these.
inline void add_preconditioner_options(OptionReader& reader, PreconditionerCost& cost, OptimizerOptions& known) {
  const std::vector<MatrixOptimizer> both{MatrixOptimizer::shampoo, MatrixOptimizer::soap};
  known.add(reader.integer("--precondition-frequency", cost.frequency, 1,
                           "Steps from one refresh of roots (Shampoo) or bases (SOAP) to the next"),
            both);
  known.add(reader.integer("--max-preconditioner-dimension", cost.largest_dimension, 1,
                           "Matrices with a larger extent are on AdamW instead of Shampoo or SOAP"),
            both);
  known.add(reader.integer("--preconditioner-block", cost.block_size, 1,
                           "Of Shampoo: larger matrices are cut into blocks of so many rows and columns"),
            {MatrixOptimizer::shampoo});
  known.add(reader.text("--grafting", "Whose norm Shampoo's update has: adam, sgd (the averaged gradient), none",
                        "adam", [&cost](const std::string& value) { cost.grafting = parse_grafting(value); }),
            {MatrixOptimizer::shampoo});
}

}  // namespace matrixfsdp::apps
