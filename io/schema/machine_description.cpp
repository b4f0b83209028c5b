#include <string_view>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/files.hpp>
#include <matrixfsdp/schema/machine_description.hpp>

#include "io/schema/manifest_json.hpp"

namespace matrixfsdp::io {
namespace {

constexpr std::string_view format_name = "matrixfsdp machine";
constexpr std::int64_t version = 1;

Json to_json(const MachineLink& link) {
  return {{"latency_seconds", link.latency_seconds},
          {"bytes_per_second", link.bytes_per_second},
          {"node_bytes_per_second", link.node_bytes_per_second}};
}

MachineLink read_link(Fields& machine, const char* key) {
  Fields fields(machine.object(key), machine.source(), key);
  MachineLink link;
  link.latency_seconds = fields.number("latency_seconds");
  link.bytes_per_second = fields.number("bytes_per_second");
  link.node_bytes_per_second = fields.number("node_bytes_per_second");
  fields.finish();
  return link;
}

void read_slow_ranks(Fields& fields, Machine& machine) {
  fields.each("slow_ranks", [&](const Json& element, const std::string& path) {
    Fields slow(element, fields.source(), path);
    const auto rank = static_cast<int>(slow.integer("rank", 0, machine.ranks() - 1));
    machine.slow_ranks.push_back({rank, slow.number("factor")});
    slow.finish();
  });
}

}  // namespace

std::string to_text(const Machine& machine) {
  validate(machine);
  Json slow = Json::array();
  for (const SlowRank& rank : machine.slow_ranks)
    slow.push_back({{"rank", rank.rank}, {"factor", rank.factor}});
  const Json value{{"format", std::string(format_name)},
                   {"format_version", version},
                   {"name", machine.name},
                   {"nodes", machine.nodes},
                   {"ranks_per_node", machine.ranks_per_node},
                   {"inside", to_json(machine.inside)},
                   {"between", to_json(machine.between)},
                   {"gemm_flops_per_second", machine.gemm_flops_per_second},
                   {"orthogonalize_flops_per_second", machine.orthogonalize_flops_per_second},
                   {"memory_bytes", machine.memory_bytes},
                   {"memory_bytes_per_second", machine.memory_bytes_per_second},
                   {"slow_ranks", slow}};
  return dump(value, 1) + "\n";
}

Machine parse_machine(const std::string& text, const std::string& source) {
  const Json value = parse_json(text, source);
  Fields fields(value, source, "");
  fields.require_format(format_name, version);
  Machine machine;
  machine.name = fields.text("name");
  machine.nodes = static_cast<int>(fields.integer("nodes", 1, 1 << 20));
  machine.ranks_per_node = static_cast<int>(fields.integer("ranks_per_node", 1, 1 << 10));
  machine.inside = read_link(fields, "inside");
  machine.between = read_link(fields, "between");
  machine.gemm_flops_per_second = fields.number("gemm_flops_per_second");
  machine.orthogonalize_flops_per_second = fields.number("orthogonalize_flops_per_second");
  machine.memory_bytes = fields.number("memory_bytes");
  machine.memory_bytes_per_second = fields.number("memory_bytes_per_second");
  read_slow_ranks(fields, machine);
  fields.finish();
  require_valid(machine, source);
  return machine;
}

Machine read_machine(const std::string& path) {
  return parse_machine(read_text(path), path);
}

void write_machine(const std::string& path, const Machine& machine) {
  write_text_durably(path, to_text(machine));
}

}  // namespace matrixfsdp::io
