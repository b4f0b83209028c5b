#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <matrixfsdp/core/shape.hpp>

namespace matrixfsdp {

/// A matrix has a matrix optimizer and lives whole on one owner; a tail is everything else and stays on AdamW.
enum class ParameterKind {
  matrix,  ///< whole on one owner, stepped by a matrix optimizer
  tail,    ///< cut over ranks or packed on one, stepped by AdamW
};

/// "matrix" or "tail". Throws ContractError for a value outside of the enumeration.
std::string_view name_of(ParameterKind kind);
/// Inverse. Throws InputError for any other name.
ParameterKind parse_parameter_kind(std::string_view name);

/// Named parts of a fused matrix (query, key, value, ...). Each part is orthogonalized by itself, as if it were a
/// parameter of its own. `axis` 0 splits rows, 1 splits columns (of each matrix, see matrix_extents); `sizes` must sum
/// to that extent, one name per size.
struct Blocks {
  int axis = 0;                     ///< 0: rows, 1: columns
  std::vector<std::string> names;   ///< "query", "key", ...: unique within the parameter
  std::vector<std::int64_t> sizes;  ///< rows or columns of each

  /// Not fused: each matrix is one part.
  [[nodiscard]] bool empty() const { return sizes.empty(); }
};

/// How a parameter's first value is drawn; element i of parameter NAME uses counter i of the stream of NAME, so the
/// value does not depend on W, on the plan or on the order of parameters.
struct Initialization {
  /// What the value is drawn from.
  enum class Kind {
    zeros,   ///< 0 everywhere
    ones,    ///< 1 everywhere
    normal,  ///< the normal distribution of mean 0
  };

  Kind kind = Kind::normal;          ///< of every element
  double standard_deviation = 0.02;  ///< of Kind::normal
};

/// "zeros", "ones" or "normal". Throws ContractError for a value outside of the enumeration.
std::string_view name_of(Initialization::Kind kind);
/// Inverse. Throws InputError for any other name.
Initialization::Kind parse_initialization(std::string_view name);

/// One parameter. Weights of linear maps are (out features, in features), row-major.
struct ParameterSpec {
  std::string name;                        ///< unique in the model; used in messages, metrics and checkpoints
  Shape shape;                             ///< global: the same on every rank, whoever owns it
  std::optional<ParameterKind> kind = {};  ///< overrides the rule of kind_of
  bool embedding = false;                  ///< a lookup table: a tail by rule
  Blocks blocks = {};                      ///< of a matrix only
  bool frozen = false;                     ///< unsharded like the others, but no gradient, no optimizer state, no step
  std::string group = {};                  ///< name of a ParameterGroup, or empty
  Initialization initialization = {};      ///< of the first value; a checkpoint that is loaded replaces it
};

/// Learning-rate scale and weight decay of the parameters that name this group.
struct ParameterGroup {
  std::string name;                    ///< what ParameterSpec::group says
  double learning_rate_scale = 1.0;    ///< factor on the base learning rate of whichever optimizer steps it
  std::optional<double> weight_decay;  ///< replaces the optimizer's own
};

/// Parameters that are materialised together, in canonical order.
struct UnitSpec {
  std::string name;                       ///< "root", "block.0", ...: for messages and policies
  std::vector<ParameterSpec> parameters;  ///< an index within the unit counts these
  bool keep = false;  ///< default of the pinning policy: stay unsharded from forward to backward (the root does)
};

/// A second name of a parameter: one owner, one optimizer, one entry in the checkpoint.
struct TiedParameter {
  std::string name;    ///< e.g. "head.weight"
  std::string target;  ///< e.g. "token_embedding"
};

/// A model as the planner sees it. Units are in forward order; the root unit (what does not belong to a block) is
/// first.
struct ModelSpec {
  std::vector<UnitSpec> units;         ///< forward runs from the first to the last
  std::vector<TiedParameter> tied;     ///< second names of parameters
  std::vector<ParameterGroup> groups;  ///< those that parameters name
};

/// A matrix parameter as `batch` matrices of rows x cols, contiguous one after another.
struct MatrixExtents {
  std::int64_t batch = 1;  ///< matrices of the parameter
  std::int64_t rows = 0;   ///< of each
  std::int64_t cols = 0;   ///< of each
};

/// Kind by override, else by rule from the *global* shape: a matrix has at least two dimensions, is not an embedding,
/// and its matrix extents have at least two rows and two columns (so 1xN and Nx1 are tails, for every strategy; an
/// override makes them matrices). A parameter with no elements is a tail, whatever the override. Throws ContractError
/// as element_count(Shape) does.
ParameterKind kind_of(const ParameterSpec& parameter);

/// One rule for more than two dimensions: (e, r, c) is a batch of e matrices (experts); with four or more dimensions
/// (a convolution) the first is rows and the rest are flattened into columns. Fewer than two: one row. Throws
/// ContractError as element_count(Shape) does.
MatrixExtents matrix_extents(const Shape& shape);

/// One matrix to be orthogonalized: a part of a matrix parameter with leading dimension `stride`.
struct MatrixPart {
  std::int64_t offset = 0;  ///< first element within the parameter
  std::int64_t rows = 0;    ///< of the part
  std::int64_t cols = 0;    ///< of the part
  std::int64_t stride = 0;  ///< elements from one row to the next
  std::string name;         ///< block name, or empty
};

/// The matrices of a matrix parameter in canonical order: batch by batch, block by block. Throws InputError for blocks
/// that do not fit the shape. Goes by the shape alone: that the kind is matrix is the caller's to know (kind_of).
std::vector<MatrixPart> matrix_parts(const ParameterSpec& parameter);

/// The group of a parameter; a default ParameterGroup where it names none. Throws InputError for a name that the model
/// does not have.
ParameterGroup group_of(const ModelSpec& model, const ParameterSpec& parameter);

/// Throws InputError naming the parameter (unit, group), the value and what was expected, unless: names of units,
/// parameters with their second names, and groups are not empty, without '/' and unique among their own; extents are
/// not negative; blocks are on matrices only, along axis 0 or 1, with as many names as sizes, names not empty and
/// unique in the parameter, sizes positive and summing to the extent; groups that parameters name exist; standard
/// deviations, learning-rate scales and weight decays are finite and not negative; tied targets are parameters, not
/// second names; the model has 2^58 elements at most.
void validate(const ModelSpec& model);

/// All elements of the model, frozen ones too.
std::int64_t element_count(const ModelSpec& model);
/// Number of matrices that one step orthogonalizes: the parts (matrix_parts) of trainable matrix parameters.
std::int64_t matrix_count(const ModelSpec& model);

/// Fingerprint of everything above, equal on every rank or the job stops at start.
std::uint64_t hash_of(const ModelSpec& model);

}  // namespace matrixfsdp
