#include <gtest/gtest.h>

#include "unit/oracle_fixture.hpp"

namespace oracle {
namespace {

using test::formula_parameters;
using test::mean_loss;

/// Norm of a gradient, and its sum weighted by 1, 2, 3, ..., which sees a swap of two elements.
struct Digest {
  const char* name;
  double norm;
  double weighted;
};

void expect_digests(const Parameters& gradient, const std::vector<Digest>& expected) {
  ASSERT_EQ(gradient.size(), expected.size());
  for (const Digest& digest : expected) {
    double square = 0.0;
    double weighted = 0.0;
    double at = 0.0;
    for (const double value : gradient.at(digest.name).values) {
      square += value * value;
      weighted += ++at * value;
    }
    EXPECT_NEAR(std::sqrt(square), digest.norm, 1e-10) << digest.name;
    EXPECT_NEAR(weighted, digest.weighted, 1e-8) << digest.name;
  }
}

// The numbers are those of FlaxGPT2LMHeadModel and FlaxLlamaForCausalLM of Hugging Face transformers 4.44.2 with
// automatic differentiation, all in float64 (Llama's rotary angles, RMSNorm and softmax too, which the original keeps
// in float32), on the parameters of the fixture: both styles mean what their names say.
TEST(OracleTransformer, gpt2_agrees_with_hugging_face) {
  const Model model = test::small_gpt2();
  const Parameters parameters = formula_parameters(model);
  Parameters gradient = zeros_like(parameters);
  EXPECT_NEAR(mean_loss(model, parameters, test::two_sequences(), &gradient), 2.625478648556894, 1e-12);
  expect_digests(gradient, {{"token_embedding", 1.1561362643775297, 10.265598879039157},
                            {"position_embedding", 0.7028154239998462, 2.662301294013982},
                            {"final_norm.weight", 0.24559315327486309, 2.636611034468355},
                            {"final_norm.bias", 0.19628354321518818, 0.5579278302171656},
                            {"block.0.attention_norm.weight", 0.23709792525886508, 1.6181088587431167},
                            {"block.0.attention_norm.bias", 0.21037171909226213, 0.28095277579396827},
                            {"block.0.attention.qkv", 1.1277879923960776, 679.1846603827396},
                            {"block.0.attention.qkv_bias", 0.32742294838045494, -18.763145598843813},
                            {"block.0.attention.output", 0.9937143887464293, 15.260206792900231},
                            {"block.0.attention.output_bias", 0.33988063562664755, 0.849344610422472},
                            {"block.0.mlp_norm.weight", 0.12418782362894736, -0.5197995448574337},
                            {"block.0.mlp_norm.bias", 0.15266983717009713, 0.5045669875672388},
                            {"block.0.mlp.up", 0.4629041366298415, 32.19446379624418},
                            {"block.0.mlp.up_bias", 0.15100567826683917, -2.9677459156752635},
                            {"block.0.mlp.down", 0.4345728361710532, -23.709824950777346},
                            {"block.0.mlp.down_bias", 0.1315657318799589, -0.22173260656635518},
                            {"block.1.attention_norm.weight", 0.07958358880723415, 0.011260100715404009},
                            {"block.1.attention_norm.bias", 0.08668124390231437, -0.0290420740806554},
                            {"block.1.attention.qkv", 0.33782524634249994, -7.823227347564535},
                            {"block.1.attention.qkv_bias", 0.10959460268875972, 3.900612238475923},
                            {"block.1.attention.output", 0.3043761264765248, -5.7940257070672745},
                            {"block.1.attention.output_bias", 0.08935681870164039, 0.05660690147240832},
                            {"block.1.mlp_norm.weight", 0.07962123876055309, 0.558432135473838},
                            {"block.1.mlp_norm.bias", 0.09002105195589012, 0.47691021726236},
                            {"block.1.mlp.up", 0.3341283103600022, -2.472053095757685},
                            {"block.1.mlp.up_bias", 0.09351409229455965, -0.40400811511120027},
                            {"block.1.mlp.down", 0.29512315669112515, 0.9403751325390601},
                            {"block.1.mlp.down_bias", 0.0843497811616591, -0.12100037567426265}});
}

TEST(OracleTransformer, llama_agrees_with_hugging_face) {
  const Model model = test::small_llama();
  const Parameters parameters = formula_parameters(model);
  Parameters gradient = zeros_like(parameters);
  EXPECT_NEAR(mean_loss(model, parameters, test::two_sequences(), &gradient), 2.5422839692431176, 1e-12);
  expect_digests(gradient, {{"token_embedding", 1.6645199152187065, -42.7526924626282},
                            {"final_norm.weight", 0.388754744119284, 3.5135500344274107},
                            {"head.weight", 1.1581401848170378, -20.084264034686946},
                            {"block.0.attention_norm.weight", 0.46126578994640427, 3.219207388599182},
                            {"block.0.attention.qkv", 1.329440475012656, -124.08978562116525},
                            {"block.0.attention.output", 1.478846985947444, -28.726045648004785},
                            {"block.0.mlp_norm.weight", 0.2320116456245328, -0.7314840042771483},
                            {"block.0.mlp.gate_up", 0.8045146052316237, -63.349063577055574},
                            {"block.0.mlp.down", 0.6366057581717041, -16.441328617245208},
                            {"block.1.attention_norm.weight", 0.19498635508407, 1.320918015474159},
                            {"block.1.attention.qkv", 0.7252124459405707, -185.01134421661249},
                            {"block.1.attention.output", 0.5814103714678649, -59.804604642034626},
                            {"block.1.mlp_norm.weight", 0.14009189600878186, 0.10099817891266566},
                            {"block.1.mlp.gate_up", 0.47211353390391575, -53.72008295473982},
                            {"block.1.mlp.down", 0.2724809266133716, -5.981491134152694}});
}

/// Central differences of the mean loss for every element of every parameter. Their error is h^2 / 6 times a third
/// derivative of order 10, plus rounding of the loss over h: below 1e-8 for h = 1e-5.
void expect_finite_differences(const Model& model) {
  Parameters parameters = formula_parameters(model);
  std::vector<Sequence> batch = test::two_sequences();
  for (Sequence& sequence : batch) {
    for (std::int32_t& id : sequence)
      id %= static_cast<std::int32_t>(model.vocabulary);
  }
  batch[1].resize(3);
  Parameters gradient = zeros_like(parameters);
  const double loss = mean_loss(model, parameters, batch, &gradient);
  EXPECT_EQ(loss, mean_loss(model, parameters, batch));
  const double h = 1e-5;
  for (auto& [name, tensor] : parameters) {
    double largest = 0.0;
    for (std::size_t i = 0; i < tensor.values.size(); ++i) {
      const double value = tensor.values[i];
      tensor.values[i] = value + h;
      const double above = mean_loss(model, parameters, batch);
      tensor.values[i] = value - h;
      const double below = mean_loss(model, parameters, batch);
      tensor.values[i] = value;
      ASSERT_NEAR(gradient.at(name).values[i], (above - below) / (2.0 * h), 1e-8) << name << " element " << i;
      largest = std::fmax(largest, std::fabs(gradient.at(name).values[i]));
    }
    EXPECT_GT(largest, 1e-4) << name << " has no gradient to speak of";
  }
}

TEST(OracleTransformer, gradient_of_gpt2_is_that_of_finite_differences) {
  Model model = test::small_gpt2();
  model.hidden = 6;
  model.heads = 2;
  model.kv_heads = 2;
  model.ffn = 5;
  model.sequence_length = 7;
  model.vocabulary = 7;
  expect_finite_differences(model);
  model.tied_head = false;
  expect_finite_differences(model);
}

TEST(OracleTransformer, gradient_of_llama_is_that_of_finite_differences) {
  Model model = test::small_llama();
  model.hidden = 12;
  model.heads = 6;
  model.kv_heads = 2;
  model.ffn = 5;
  model.sequence_length = 7;
  model.vocabulary = 7;
  expect_finite_differences(model);
  model.tied_head = true;
  expect_finite_differences(model);
}

TEST(OracleTransformer, refuses_what_the_model_cannot_take) {
  const Model model = test::small_gpt2();
  const Parameters parameters = formula_parameters(model);
  EXPECT_THROW(loss_sum(model, parameters, {1}), std::invalid_argument);
  EXPECT_THROW(loss_sum(model, parameters, Sequence(10, 1)), std::invalid_argument);
  EXPECT_THROW(loss_sum(model, parameters, {1, 11}), std::invalid_argument);
  EXPECT_THROW(loss_sum(model, parameters, {-1, 1}), std::invalid_argument);
}

}  // namespace
}  // namespace oracle
