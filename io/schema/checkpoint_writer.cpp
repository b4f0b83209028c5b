#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/checkpoint_writer.hpp>
#include <matrixfsdp/schema/folders.hpp>
#include <matrixfsdp/schema/index_file.hpp>
#include <matrixfsdp/schema/tensor_file.hpp>

namespace matrixfsdp::io {
namespace {

namespace fs = std::filesystem;

/// An HDF5 file that is open costs up to a megabyte, and the system limits their number.
constexpr int open_files = 32;

struct Piece {
  Interval elements;
  int rank = 0;
};

/// Pieces of one parameter, from its first element to its last; they cover it. A parameter without elements, and
/// everything of a replicated plan, is with rank 0, as in a save.
std::vector<Piece> pieces_of(const Plan& plan, std::size_t unit, std::size_t index, const ParameterSpec& parameter) {
  const std::int64_t count = element_count(parameter.shape);
  if (plan.replicated || count == 0) return {{{0, count}, 0}};
  std::vector<Piece> pieces;
  for (const Segment& segment : plan.units[unit].weights.segments) {
    if (segment.parameter == index) pieces.push_back({segment.elements, segment.rank});
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.elements.begin < b.elements.begin; });
  return pieces;
}

class Writing {
 public:
  Writing(std::string folder, const ModelSpec& model, const Plan& plan, TensorSource& source)
      : folder_(std::move(folder)), model_(model), plan_(plan), source_(source), values_(largest_tensor()) {}

  std::vector<ManifestPart> run() {
    for (int first = 0; first < plan_.world_size; first += open_files)
      write_ranks(first, std::min(plan_.world_size, first + open_files));
    return std::move(parts_);
  }

 private:
  template <class Visit>
  void for_each_parameter(const Visit& visit) const {
    for (std::size_t u = 0; u < model_.units.size(); ++u) {
      for (std::size_t p = 0; p < model_.units[u].parameters.size(); ++p)
        visit(u, p, model_.units[u].parameters[p]);
    }
  }

  static const Shape& shape_of(const ParameterSpec& parameter, const TensorKind& kind) {
    return kind.shape ? *kind.shape : parameter.shape;
  }

  static std::size_t bytes_of(const ParameterSpec& parameter, const TensorKind& kind) {
    return static_cast<std::size_t>(element_count(shape_of(parameter, kind))) * size_of(kind.dtype);
  }

  std::size_t largest_tensor() const {
    std::size_t most = 0;
    for_each_parameter([&](std::size_t, std::size_t, const ParameterSpec& parameter) {
      for (const TensorKind& kind : source_.kinds(parameter))
        most = std::max(most, bytes_of(parameter, kind));
    });
    return most;
  }

  /// In the order of a save: all weights, then all states.
  void write_ranks(int first, int end) {
    writers_.clear();
    for (const bool weights : {true, false}) {
      for_each_parameter([&](std::size_t u, std::size_t p, const ParameterSpec& parameter) {
        const auto pieces = pieces_of(plan_, u, p, parameter);
        const auto here = [&](const Piece& piece) { return piece.rank >= first && piece.rank < end; };
        if (std::none_of(pieces.begin(), pieces.end(), here)) return;
        for (const TensorKind& kind : source_.kinds(parameter)) {
          if ((kind.what == weight_name) == weights) write_tensor(parameter, kind, pieces, first, end);
        }
      });
    }
    for (auto& [rank, writer] : writers_) {
      writer->close();
      parts_.push_back({{describe_file(folder_, rank_file_name(rank))}, {}});
    }
    writers_.clear();
    parts_.push_back({{}, std::move(segments_)});
    segments_.clear();
  }

  void write_tensor(const ParameterSpec& parameter, const TensorKind& kind, std::vector<Piece> pieces, int first,
                    int end) {
    // A state with extents of its own goes whole with the first element.
    if (kind.shape) pieces = {{{0, element_count(*kind.shape)}, pieces.front().rank}};
    const std::span<std::byte> values(values_.data(), bytes_of(parameter, kind));
    source_.read(parameter, kind, values);
    for (std::size_t k = 0; k < pieces.size(); ++k) {
      if (pieces[k].rank < first || pieces[k].rank >= end) continue;
      const std::int64_t index = pieces.size() == 1 ? -1 : static_cast<std::int64_t>(k);
      write_piece(parameter, kind, index, pieces[k], values);
    }
  }

  void write_piece(const ParameterSpec& parameter, const TensorKind& kind, std::int64_t index, const Piece& piece,
                   std::span<const std::byte> values) {
    const std::string file = rank_file_name(piece.rank);
    auto& writer = writers_[piece.rank];
    if (writer == nullptr) writer = std::make_unique<TensorFileWriter>(folder_ + "/" + file);
    const std::size_t width = size_of(kind.dtype);
    const auto bytes = static_cast<std::size_t>(piece.elements.size()) * width;
    const std::string dataset = dataset_path(parameter.name, kind.what, index);
    const std::uint64_t checksum =
        writer->write(dataset, {kind.dtype, shape_of(parameter, kind), piece.elements, kind.optimizer},
                      values.subspan(static_cast<std::size_t>(piece.elements.begin) * width, bytes));
    segments_.push_back({parameter.name, kind.what, file, dataset, piece.elements, kind.dtype,
                         static_cast<std::int64_t>(bytes), checksum, kind.optimizer, kind.shape});
  }

  std::string folder_;
  const ModelSpec& model_;
  const Plan& plan_;
  TensorSource& source_;
  std::vector<std::byte> values_;  // one tensor
  std::map<int, std::unique_ptr<TensorFileWriter>> writers_;
  std::vector<StoredSegment> segments_;
  std::vector<ManifestPart> parts_;
};

void require_empty(const std::string& folder) {
  if (!fs::exists(folder)) return;
  if (!fs::is_directory(folder)) throw InputError(fmt::format("'{}': is not a folder", folder));
  if (!fs::is_empty(folder)) {
    throw InputError(fmt::format("'{}': holds '{}' already; expected a new or an empty folder, nothing is overwritten",
                                 folder, fs::directory_iterator(folder)->path().filename().string()));
  }
}

}  // namespace

std::string write_checkpoint(const std::string& folder, Manifest manifest, const Plan& plan, TensorSource& source) {
  require_empty(folder);
  const std::int64_t step = manifest.state.step;
  const std::string temporary = make_temporary_folder(folder, step);
  Unpublished unpublished(folder + "/" + temporary, true);
  manifest.planner = plan.planner;
  manifest.world_size = plan.world_size;
  manifest.replicated = plan.replicated;
  manifest.files.clear();
  manifest.segments.clear();
  add_parts(manifest, Writing(unpublished.path(), manifest.model, plan, source).run());
  manifest.files.insert(manifest.files.begin(), write_index_file(unpublished.path(), manifest));
  write_text_durably(fmt::format("{}/{}", unpublished.path(), manifest_name), to_text(manifest));
  publish(folder, temporary, step);
  unpublished.published();
  return folder + "/" + step_name(step);
}

}  // namespace matrixfsdp::io
