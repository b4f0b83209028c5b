#include "apps/ckpt/foreign_source.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <set>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/model_text.hpp>

#include "apps/ckpt/metadata.hpp"
#include "apps/ckpt/values.hpp"

namespace matrixfsdp::ckpt {
namespace {

/// Calls visit(i, value) for the elements of a tensor. Each is exact in float32.
template <class Visit>
void for_each_value(const io::SafetensorsReader& reader, const io::SafetensorsEntry& entry, const Visit& visit) {
  reader.read(entry, [&](std::int64_t first, std::span<const std::byte> values) {
    const bool wide = entry.dtype == "F32";
    const bool half = entry.dtype == "F16";
    const std::size_t count = values.size() / (wide ? 4 : 2);
    for (std::size_t i = 0; i < count; ++i) {
      float value = 0;
      if (half) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, values.data() + 2 * i, sizeof bits);
        value = half_to_float(bits);
      } else {
        value = static_cast<float>(value_at(wide ? DType::float32 : DType::bfloat16, values, i));
      }
      visit(first + static_cast<std::int64_t>(i), value);
    }
  });
}

}  // namespace

ForeignSource::ForeignSource(const Command& command) : optimizer_(command.optimizer) {
  for (const std::string& file : command.files)
    readers_.emplace_back(file);
  find_model(command);
  find_tensors();
  match_tensors();
}

void ForeignSource::find_model(const Command& command) {
  std::vector<io::SafetensorsEntry> all;
  bool stored = false;
  for (const io::SafetensorsReader& reader : readers_) {
    const io::SafetensorsHeader& header = reader.header();
    all.insert(all.end(), header.tensors.begin(), header.tensors.end());
    const auto text = header.metadata.find(model_key);
    if (text == header.metadata.end()) continue;
    model_ = io::parse_model(text->second, fmt::format("{}, metadata {}", reader.path(), model_key));
    stored = true;
  }
  const std::string& source = readers_.front().path();
  hugging_face_ = command.names == Names::hugging_face;
  if (!command.names_given) {
    const auto has = [&](const ForeignTensor& tensor) {
      return std::any_of(all.begin(), all.end(),
                         [&](const io::SafetensorsEntry& entry) { return entry.name == tensor.name; });
    };
    const auto own = own_tensors(model_);
    hugging_face_ = !stored || !std::all_of(own.begin(), own.end(), has);
  }
  if (stored) return;
  if (!hugging_face_) {
    throw InputError(
        fmt::format("'{}': has no metadata '{}'; expected a file that mfsdp-ckpt export wrote, or "
                    "--names huggingface",
                    source, model_key));
  }
  model_ = transformer_model(infer_transformer(all, source));
}

void ForeignSource::find_tensors() {
  for (const io::SafetensorsReader& reader : readers_) {
    for (const io::SafetensorsEntry& entry : reader.header().tensors) {
      if (hugging_face_ && is_hugging_face_buffer(entry.name)) continue;
      const std::string name = hugging_face_ ? full_hugging_face_name(entry.name) : entry.name;
      if (!places_.emplace(name, Place{&reader, &entry}).second) {
        throw InputError(
            fmt::format("'{}', tensor '{}': is in another file too; expected it once", reader.path(), name));
      }
    }
  }
}

const ForeignSource::Place& ForeignSource::place_of(const ForeignTensor& tensor) const {
  const auto found = places_.find(tensor.name);
  if (found == places_.end()) {
    throw InputError(fmt::format("'{}': has no tensor '{}'; expected it with shape {}, for '{}'",
                                 readers_.front().path(), tensor.name, to_string(tensor.shape), tensor.parameter));
  }
  const auto& [reader, entry] = found->second;
  if (entry->shape != tensor.shape) {
    throw InputError(fmt::format("'{}', tensor '{}': shape {}; expected {}", reader->path(), tensor.name,
                                 to_string(entry->shape), to_string(tensor.shape)));
  }
  if (entry->dtype != "F32" && entry->dtype != "BF16" && entry->dtype != "F16") {
    throw InputError(fmt::format("'{}', tensor '{}': dtype {}; expected F32, BF16 or F16", reader->path(), tensor.name,
                                 entry->dtype));
  }
  return found->second;
}

void ForeignSource::match_tensors() {
  std::set<std::string> known;
  for (const ForeignTensor& tensor : hugging_face_ ? hugging_face_tensors(model_) : own_tensors(model_)) {
    (void)place_of(tensor);
    known.insert(tensor.name);
    tensors_[tensor.parameter].push_back(tensor);
  }
  for (const auto& [name, place] : places_) {
    if (known.contains(name)) continue;
    if (!hugging_face_ || name != "lm_head.weight") {
      throw InputError(
          fmt::format("'{}', tensor '{}': unexpected; the model has no such parameter", place.reader->path(), name));
    }
    check_tied_head(name);
  }
}

void ForeignSource::check_tied_head(const std::string& name) const {
  ForeignTensor head = tensors_.at("token_embedding").front();
  const Place& embedding = place_of(head);
  head.name = name;
  const Place& copy = place_of(head);
  std::vector<float> values(static_cast<std::size_t>(head.elements.size()));
  for_each_value(*embedding.reader, *embedding.entry,
                 [&](std::int64_t i, float value) { values[static_cast<std::size_t>(i)] = value; });
  for_each_value(*copy.reader, *copy.entry, [&](std::int64_t i, float value) {
    const float expected = values[static_cast<std::size_t>(i)];
    if (std::bit_cast<std::uint32_t>(expected) == std::bit_cast<std::uint32_t>(value)) return;
    throw InputError(
        fmt::format("'{}', tensor '{}': element {} is {}; expected {}, because the model ties it to the "
                    "embedding",
                    copy.reader->path(), name, i, value, expected));
  });
}

std::vector<io::TensorKind> ForeignSource::kinds(const ParameterSpec& parameter) {
  std::vector<io::TensorKind> kinds{{std::string(io::weight_name), ""}};
  if (parameter.frozen || element_count(parameter.shape) == 0 || optimizer_ == StateOptimizer::none) return kinds;
  // As optim's routing: matrices have the optimizer's state, everything else AdamW's.
  if (optimizer_ == StateOptimizer::muon && kind_of(parameter) == ParameterKind::matrix) {
    kinds.push_back({"momentum", "muon"});
  } else {
    kinds.push_back({"first_moment", "adamw"});
    kinds.push_back({"second_moment", "adamw"});
  }
  return kinds;
}

void ForeignSource::read(const ParameterSpec& parameter, const io::TensorKind& kind, std::span<std::byte> values) {
  if (kind.what != io::weight_name) {
    std::fill(values.begin(), values.end(), std::byte{0});
    return;
  }
  for (const ForeignTensor& tensor : tensors_.at(parameter.name)) {
    const Place& place = place_of(tensor);
    for_each_value(*place.reader, *place.entry, [&](std::int64_t i, float value) {
      std::memcpy(values.data() + tensor.index(i) * static_cast<std::int64_t>(sizeof value), &value, sizeof value);
    });
  }
}

}  // namespace matrixfsdp::ckpt
