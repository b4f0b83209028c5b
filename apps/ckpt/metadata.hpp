#pragma once

namespace matrixfsdp::ckpt {

/// Metadata of the safetensors files that export writes, for import: the model (io::to_text), and the step.
inline constexpr const char* model_key = "matrixfsdp.model";
inline constexpr const char* step_key = "matrixfsdp.step";

}  // namespace matrixfsdp::ckpt
