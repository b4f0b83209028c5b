#include <algorithm>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/checkpoint_reader.hpp>
#include <matrixfsdp/schema/model_text.hpp>
#include <matrixfsdp/schema/safetensors.hpp>

#include "apps/ckpt/actions.hpp"
#include "apps/ckpt/hugging_face.hpp"
#include "apps/ckpt/locate.hpp"
#include "apps/ckpt/metadata.hpp"
#include "apps/ckpt/report.hpp"
#include "apps/ckpt/values.hpp"

namespace matrixfsdp::ckpt {
namespace {

std::string safetensors_name(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return "F32";
    case DType::float64:
      return "F64";
    case DType::bfloat16:
      return "BF16";
  }
  throw ContractError("dtype: expected one that checkpoints have");
}

/// Element type in the file: as stored, or as asked for. Nothing is rounded twice, and float64 not at all.
DType target_type(DType stored, const std::string& asked, const std::string& parameter) {
  if (asked.empty()) return stored;
  if (stored == DType::float64) {
    throw InputError(fmt::format("--dtype {}: '{}' is stored as float64; expected no --dtype", asked, parameter));
  }
  return parse_dtype(asked);
}

class Exporter {
 public:
  Exporter(io::CheckpointReader& reader, const Command& command) : reader_(reader), dtype_(command.dtype) {
    const ModelSpec& model = reader.manifest().model;
    if (command.names == Names::hugging_face) {
      tensors_ = hugging_face_tensors(model);
    } else {
      tensors_ = own_tensors(model);
    }
  }

  /// Returns the number of bytes of data.
  std::int64_t write(const std::string& path) {
    std::vector<io::SafetensorsEntry> entries;
    for (const ForeignTensor& tensor : tensors_)
      entries.push_back({tensor.name, safetensors_name(type_of(tensor)), tensor.shape});
    const io::Manifest& manifest = reader_.manifest();
    io::SafetensorsWriter writer(
        path, std::move(entries),
        {{"format", "pt"}, {model_key, io::to_text(manifest.model)}, {step_key, std::to_string(manifest.state.step)}});
    std::int64_t bytes = 0;
    for (const ForeignTensor& tensor : tensors_)
      bytes += write(tensor, writer);
    writer.close();
    return bytes;
  }

  [[nodiscard]] std::size_t tensors() const { return tensors_.size(); }

 private:
  [[nodiscard]] DType type_of(const ForeignTensor& tensor) const {
    return target_type(reader_.dtype(tensor.parameter, std::string(io::weight_name)), dtype_, tensor.parameter);
  }

  /// Keeps the parameter that was read last: fused ones give several tensors.
  void load(const std::string& parameter) {
    if (loaded_ == parameter) return;
    stored_ = reader_.dtype(parameter, std::string(io::weight_name));
    const std::size_t width = size_of(stored_);
    values_.resize(static_cast<std::size_t>(reader_.elements(parameter)) * width);
    reader_.read(parameter, std::string(io::weight_name), [&](std::int64_t first, std::span<const std::byte> block) {
      std::copy(block.begin(), block.end(), values_.begin() + first * static_cast<std::int64_t>(width));
    });
    loaded_ = parameter;
  }

  std::int64_t write(const ForeignTensor& tensor, io::SafetensorsWriter& writer) {
    constexpr std::int64_t block_elements = 1 << 17;
    load(tensor.parameter);
    const DType type = type_of(tensor);
    const std::size_t width = size_of(type);
    const std::int64_t count = tensor.elements.size();
    std::vector<std::byte> block(static_cast<std::size_t>(std::min(count, block_elements)) * width);
    for (std::int64_t done = 0; done < count; done += block_elements) {
      const std::int64_t now = std::min(block_elements, count - done);
      for (std::int64_t i = 0; i < now; ++i)
        put(static_cast<std::size_t>(tensor.index(done + i)), type, block.data() + static_cast<std::size_t>(i) * width);
      writer.append(std::span(block).first(static_cast<std::size_t>(now) * width));
    }
    return count * static_cast<std::int64_t>(width);
  }

  void put(std::size_t index, DType type, std::byte* target) const {
    if (type == stored_) {
      std::memcpy(target, values_.data() + index * size_of(type), size_of(type));
      return;
    }
    const auto value = static_cast<float>(value_at(stored_, values_, index));
    if (type == DType::float32) {
      std::memcpy(target, &value, sizeof value);
    } else {
      const bfloat16 rounded = to_bfloat16(value);
      std::memcpy(target, &rounded, sizeof rounded);
    }
  }

  io::CheckpointReader& reader_;
  std::string dtype_;
  std::vector<ForeignTensor> tensors_;
  std::optional<std::string> loaded_;
  DType stored_ = DType::float32;  // of what is loaded
  std::vector<std::byte> values_;
};

}  // namespace

int export_tensors(const Command& command) {
  io::CheckpointReader reader(locate(command.source));
  Exporter exporter(reader, command);
  const std::string& file = command.files.front();
  const std::int64_t bytes = exporter.write(file);
  if (command.json) {
    print_json({{"file", file}, {"checkpoint", reader.folder()}, {"tensors", exporter.tensors()}, {"bytes", bytes}});
  } else {
    fmt::print("{}: {} tensors of {}, {} bytes of data\n", file, exporter.tensors(), reader.folder(), bytes);
  }
  return exit_ok;
}

}  // namespace matrixfsdp::ckpt
