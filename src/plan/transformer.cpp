#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/transformer.hpp>

namespace matrixfsdp {
namespace {

struct CatalogueEntry {
  const char* name;
  TransformerShape shape;
};

// GPT-2: Radford et al. 2019, as released. Llama 3 8B and 70B: Dubey et al. 2024, table 3; Llama 3.2 1B as released
// (the only one here with a tied head). The sequence length is that of pre-training.
const std::vector<CatalogueEntry>& catalogue() {
  constexpr auto gpt2 = TransformerStyle::gpt2;
  constexpr auto llama = TransformerStyle::llama;
  static const std::vector<CatalogueEntry> entries = {
      {"gpt2:124m", {gpt2, 12, 768, 12, 12, 3072, 1024, 50257, true}},
      {"gpt2:350m", {gpt2, 24, 1024, 16, 16, 4096, 1024, 50257, true}},
      {"gpt2:774m", {gpt2, 36, 1280, 20, 20, 5120, 1024, 50257, true}},
      {"gpt2:1.5b", {gpt2, 48, 1600, 25, 25, 6400, 1024, 50257, true}},
      {"llama:1b", {llama, 16, 2048, 32, 8, 8192, 8192, 128256, true}},
      {"llama:8b", {llama, 32, 4096, 32, 8, 14336, 8192, 128256, false}},
      {"llama:70b", {llama, 80, 8192, 64, 8, 28672, 8192, 128256, false}},
  };
  return entries;
}

constexpr std::int64_t max_depth = 4096;

/// Hidden width 64 d in d heads. Llama: a feed-forward of 8/3 of the width (the gate adds a third matrix), to a
/// multiple of 64, and a quarter of the heads for keys and values where that divides.
TransformerShape from_depth(TransformerStyle style, std::int64_t depth) {
  const std::int64_t hidden = 64 * depth;
  if (style == TransformerStyle::gpt2) return {style, depth, hidden, depth, depth, 4 * hidden, 1024, 50257, true};
  const std::int64_t kv_heads = depth % 4 == 0 ? depth / 4 : depth;
  const std::int64_t ffn = (8 * hidden / 3 + 63) / 64 * 64;
  return {style, depth, hidden, depth, kv_heads, ffn, 2048, 32000, false};
}

/// N of "dN", or 0.
std::int64_t parse_depth(std::string_view text) {
  if (text.empty() || text.front() != 'd') return 0;
  std::int64_t depth = 0;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data() + 1, end, depth);
  return error == std::errc() && last == end && depth >= 1 && depth <= max_depth ? depth : 0;
}

}  // namespace

std::string_view name_of(TransformerStyle style) {
  return style == TransformerStyle::gpt2 ? "gpt2" : "llama";
}

void validate(const TransformerShape& shape) {
  struct Extent {
    const char* name;
    std::int64_t value;
  };
  constexpr std::int64_t limit = std::int64_t{1} << 31;  // products of two extents must fit 64 bits
  for (const Extent& extent :
       {Extent{"layers", shape.layers}, Extent{"hidden", shape.hidden}, Extent{"heads", shape.heads},
        Extent{"kv heads", shape.kv_heads}, Extent{"ffn", shape.ffn}, Extent{"sequence length", shape.sequence_length},
        Extent{"vocabulary", shape.vocabulary}}) {
    if (extent.value < 1 || extent.value >= limit) {
      throw InputError(fmt::format("model: {} {}, expected at least 1 and less than 2^31", extent.name, extent.value));
    }
  }
  if (shape.hidden % shape.heads != 0) {
    throw InputError(
        fmt::format("model: hidden {} and heads {}, expected heads that divide hidden", shape.hidden, shape.heads));
  }
  if (shape.heads % shape.kv_heads != 0) {
    throw InputError(fmt::format("model: heads {} and kv heads {}, expected kv heads that divide heads", shape.heads,
                                 shape.kv_heads));
  }
  if (shape.style == TransformerStyle::gpt2 && shape.kv_heads != shape.heads) {
    throw InputError(fmt::format("model: heads {} and kv heads {}, expected the same number of both for gpt2",
                                 shape.heads, shape.kv_heads));
  }
  if (shape.style == TransformerStyle::llama && shape.head_dimension() % 2 != 0) {
    throw InputError(
        fmt::format("model: head dimension {} (hidden {} / heads {}), expected an even one for rotary "
                    "positions",
                    shape.head_dimension(), shape.hidden, shape.heads));
  }
}

TransformerShape transformer_from_name(std::string_view name) {
  for (const CatalogueEntry& entry : catalogue()) {
    if (name == entry.name) return entry.shape;
  }
  for (const TransformerStyle style : {TransformerStyle::gpt2, TransformerStyle::llama}) {
    const std::string prefix = fmt::format("{}:", name_of(style));
    if (name.substr(0, prefix.size()) != prefix) continue;
    const std::int64_t depth = parse_depth(name.substr(prefix.size()));
    if (depth > 0) return from_depth(style, depth);
  }
  throw InputError(fmt::format("model '{}': expected one of {} (dN: any depth N from 1 to {})", name,
                               fmt::join(transformer_names(), ", "), max_depth));
}

std::vector<std::string> transformer_names() {
  std::vector<std::string> names{"gpt2:d12", "llama:d12"};
  for (const CatalogueEntry& entry : catalogue())
    names.emplace_back(entry.name);
  return names;
}

}  // namespace matrixfsdp
