#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/manifest.hpp>
#include <matrixfsdp/schema/tensor_file.hpp>

namespace matrixfsdp::io {
namespace {

using Tensors = std::map<std::pair<std::string_view, std::string_view>, std::vector<const StoredSegment*>>;
using Parameters = std::map<std::string_view, const ParameterSpec*>;

class Validation {
 public:
  Validation(const Manifest& manifest, const std::string& source) : manifest_(manifest), source_(source) {}

  void run() {
    check_state();
    check_model();
    check_files();
    for (const StoredSegment& segment : manifest_.segments)
      check_segment(segment);
    check_coverage();
  }

 private:
  template <class... Arguments>
  [[noreturn]] void fail(fmt::format_string<Arguments...> format, const Arguments&... arguments) const {
    throw IoError(fmt::format("'{}': {}", source_, fmt::vformat(format, fmt::make_format_args(arguments...))));
  }

  void check_state() const {
    const TrainingState& state = manifest_.state;
    if (state.step < 0 || state.data_step < 0 || state.optimizer_steps < 0 || state.optimizer_steps > state.step) {
      fail("step {}, data step {}, optimizer steps {}: expected 0 or more, and no more optimizer steps than steps",
           state.step, state.data_step, state.optimizer_steps);
    }
    for (const auto& [name, text] : {std::pair("schedule", &state.schedule), {"configuration", &state.configuration}}) {
      const auto value = nlohmann::json::parse(*text, nullptr, false);
      if (!value.is_object()) fail("{} '{}': expected a JSON object", name, *text);
    }
    if (state.sum_group < 1) fail("sum group {}: expected 1 or more", state.sum_group);
    if (manifest_.world_size < 1) fail("world size {}: expected 1 or more", manifest_.world_size);
  }

  void check_model() {
    try {
      matrixfsdp::validate(manifest_.model);
      for (const UnitSpec& unit : manifest_.model.units) {
        for (const ParameterSpec& parameter : unit.parameters) {
          parameters_.emplace(parameter.name, &parameter);
          element_count(parameter.shape);
        }
      }
    } catch (const Error& error) {
      fail("model: {}", error.what());
    }
  }

  void check_files() {
    for (const StoredFile& file : manifest_.files) {
      if (file.name.empty() || file.name.starts_with('.') || file.name.find('/') != std::string::npos) {
        fail("file '{}': expected the name of a file in the checkpoint's folder", file.name);
      }
      if (!files_.insert(file.name).second) fail("file '{}': listed twice", file.name);
    }
  }

  [[nodiscard]] std::int64_t count_of(const StoredSegment& segment, const ParameterSpec& parameter) const {
    try {
      return element_count(segment.whole_shape(parameter.shape));
    } catch (const ContractError& error) {
      fail("{} of '{}': {}", segment.what, segment.parameter, error.what());
    }
  }

  void check_segment(const StoredSegment& segment) {
    const auto found = parameters_.find(segment.parameter);
    if (found == parameters_.end()) fail("segment of '{}': the model has no such parameter", segment.parameter);
    const ParameterSpec& parameter = *found->second;
    const std::int64_t count = count_of(segment, parameter);
    const Interval elements = segment.elements;
    if (elements.begin < 0 || elements.end < elements.begin || elements.end > count) {
      fail("{} of '{}': elements [{}, {}); expected an interval of its {}", segment.what, segment.parameter,
           elements.begin, elements.end, count);
    }
    if (elements.empty() && count != 0) fail("{} of '{}': an empty segment", segment.what, segment.parameter);
    const auto bytes = elements.size() * static_cast<std::int64_t>(size_of(segment.dtype));
    if (segment.bytes != bytes) {
      fail("{} of '{}': {} bytes; expected {} for {} elements of {}", segment.what, segment.parameter, segment.bytes,
           bytes, elements.size(), name_of(segment.dtype));
    }
    if (!files_.contains(segment.file)) {
      fail("{} of '{}': is in '{}', which is not a listed file", segment.what, segment.parameter, segment.file);
    }
    if (!datasets_.emplace(segment.file, segment.dataset).second) {
      fail("dataset '{}' of '{}': listed twice", segment.dataset, segment.file);
    }
    if (segment.what.empty() || segment.what.find('/') != std::string::npos) {
      fail("segment of '{}': holds '{}'; expected weight or the name of a state", segment.parameter, segment.what);
    }
    if (segment.optimizer.empty() != (segment.what == weight_name)) {
      fail("{} of '{}': optimizer '{}'; expected the name of one for a state, and none for a weight", segment.what,
           segment.parameter, segment.optimizer);
    }
    if (segment.what == weight_name && segment.shape) {
      fail("weight of '{}': shape {}; expected none, it is the parameter's", segment.parameter,
           to_string(*segment.shape));
    }
    if (segment.what != weight_name && parameter.frozen) {
      fail("{} of '{}': the parameter is frozen; expected no optimizer state", segment.what, segment.parameter);
    }
    tensors_[{segment.parameter, segment.what}].push_back(&segment);
  }

  /// Segments of one tensor are listed from its first element to its last.
  void check_coverage() const {
    for (const auto& [name, parameter] : parameters_) {
      if (!tensors_.contains({name, weight_name})) fail("weight of '{}': missing", name);
    }
    for (const auto& [tensor, segments] : tensors_) {
      const auto& [name, what] = tensor;
      std::int64_t next = 0;
      for (const StoredSegment* segment : segments) {
        const Interval elements = segment->elements;
        if (elements.begin > next) fail("{} of '{}': elements [{}, {}) are missing", what, name, next, elements.begin);
        if (elements.begin < next) {
          fail("{} of '{}': elements [{}, {}) are stored twice or out of order", what, name, elements.begin,
               elements.end < next ? elements.end : next);
        }
        next = elements.end;
      }
      const std::int64_t count = count_of(*segments.front(), *parameters_.at(name));
      if (next != count) fail("{} of '{}': elements [{}, {}) are missing", what, name, next, count);
      if (count == 0 && segments.size() != 1)
        fail("{} of '{}': {} segments of no elements", what, name, segments.size());
      check_likeness(segments);
    }
  }

  /// Segments of one tensor differ in place only, and their datasets are named in order.
  void check_likeness(const std::vector<const StoredSegment*>& segments) const {
    const StoredSegment& first = *segments.front();
    for (std::size_t k = 0; k < segments.size(); ++k) {
      const StoredSegment& segment = *segments[k];
      const std::string expected =
          dataset_path(segment.parameter, segment.what, segments.size() == 1 ? -1 : static_cast<std::int64_t>(k));
      if (segment.dataset != expected) {
        fail("{} of '{}': dataset '{}'; expected '{}'", segment.what, segment.parameter, segment.dataset, expected);
      }
      if (segment.shape && segments.size() != 1) {
        fail("{} of '{}': {} segments; expected one of a state with extents of its own", segment.what,
             segment.parameter, segments.size());
      }
      if (segment.dtype != first.dtype || segment.optimizer != first.optimizer) {
        fail("{} of '{}': segments of {} of '{}' and {} of '{}'; expected them alike", segment.what, segment.parameter,
             name_of(first.dtype), first.optimizer, name_of(segment.dtype), segment.optimizer);
      }
    }
  }

  const Manifest& manifest_;
  const std::string& source_;
  Parameters parameters_;
  std::set<std::string_view> files_;
  std::set<std::pair<std::string_view, std::string_view>> datasets_;
  Tensors tensors_;
};

}  // namespace

void validate(const Manifest& manifest, const std::string& source) {
  Validation(manifest, source).run();
}

}  // namespace matrixfsdp::io
