#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <matrixfsdp/schema/manifest.hpp>

namespace matrixfsdp::ckpt {

using Json = nlohmann::ordered_json;

/// JSON on standard output. Text that is not UTF-8 is shown with replacement characters.
void print_json(const Json& value);

/// What a checkpoint says about its run, but for planner and ranks.
Json state_json(const io::TrainingState& state);

/// A table: the first row is the heading; the first column is aligned to the left, as are those whose heading ends in a
/// space; the others to the right.
std::string table(const std::vector<std::vector<std::string>>& rows);

}  // namespace matrixfsdp::ckpt
