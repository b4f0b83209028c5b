#include <limits>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/collective_model.hpp>
#include <matrixfsdp/plan/planner.hpp>

#include "unit/plan_models.hpp"
#include "unit/plan_tables.hpp"

/// Predicted times by hand, and what is chosen where one algorithm is clearly the best.
namespace matrixfsdp {
namespace {

using test::owners;

/// Nothing is shared, nothing contends: alpha, and beta of one rank.
LinkModel plain(double alpha, double beta) {
  LinkModel link;
  link.alpha_seconds = alpha;
  link.beta_seconds_per_byte = beta;
  return link;
}

CollectiveProfile between_nodes(const LinkModel& link) {
  CollectiveProfile profile;
  profile.world_size = 8;
  profile.nodes = 8;
  profile.between = link;
  return profile;
}

/// `ranks` nodes of one rank; P elements owned by rank 0, or evenly.
double seconds(CollectiveAlgorithm algorithm, const SegmentTable& table, const LinkModel& link) {
  const auto ranks = static_cast<int>(table.intervals.size());
  return predicted_unshard_seconds(algorithm, table, make_topology(ranks, 1), between_nodes(link));
}

SegmentTable one_owner(std::int64_t size, int ranks) {
  std::vector<std::int64_t> owned(static_cast<std::size_t>(ranks), 0);
  owned[0] = size;
  return owners(owned);
}

constexpr double alpha = 3e-4;
constexpr double beta = 4e-8;
constexpr std::int64_t mebi = 1 << 20;
constexpr double message = 4.0 * link_block;  // bytes

TEST(PlanCollectiveModel, two_ranks_take_alpha_and_beta_of_each_byte) {
  for (const std::int64_t size : {std::int64_t{1000}, mebi}) {
    const double expected = alpha + beta * 4 * static_cast<double>(size);
    for (const auto algorithm : {CollectiveAlgorithm::direct, CollectiveAlgorithm::chain, CollectiveAlgorithm::tree,
                                 CollectiveAlgorithm::hierarchical, CollectiveAlgorithm::scatter}) {
      EXPECT_NEAR(seconds(algorithm, one_owner(size, 2), plain(alpha, beta)), expected, 1e-12) << name_of(algorithm);
    }
    const LinkModel link = plain(alpha, beta);
    EXPECT_NEAR(
        predicted_reduce_seconds(prepare_reduce(CollectiveAlgorithm::direct, one_owner(size, 2), make_topology(2, 1)),
                                 make_topology(2, 1), between_nodes(link)),
        expected, 1e-12);
  }
  LinkModel busy = plain(alpha, beta);
  busy.message_seconds = 1e-5;
  EXPECT_NEAR(seconds(CollectiveAlgorithm::chain, one_owner(mebi, 2), busy), alpha + 4 * mebi * beta + 256e-5, 1e-12)
      << "4 MiB are 256 messages";
}

// The owner sends everything to all, or to its neighbour, or to log2 W children; the last messages go on from there.
TEST(PlanCollectiveModel, one_owner_by_hand) {
  const LinkModel link = plain(alpha, beta);
  const double bytes = 4 * 4 * mebi;
  const SegmentTable table = one_owner(4 * mebi, 8);
  EXPECT_NEAR(seconds(CollectiveAlgorithm::direct, table, link), alpha + 7 * bytes * beta, 1e-12);
  EXPECT_NEAR(seconds(CollectiveAlgorithm::chain, table, link), 7 * alpha + (bytes + 6 * message) * beta, 1e-12);
  EXPECT_NEAR(seconds(CollectiveAlgorithm::hierarchical, table, link), seconds(CollectiveAlgorithm::chain, table, link),
              1e-12)
      << "nodes of one rank";
  EXPECT_NEAR(seconds(CollectiveAlgorithm::tree, table, link), 3 * alpha + (3 * bytes + 3 * message) * beta, 1e-12);
  EXPECT_NEAR(seconds(CollectiveAlgorithm::padded, table, link), 7 * alpha + 7 * bytes * beta, 1e-12)
      << "everybody's is as long as the longest";
  // To helpers, 1/7 each; the last messages of each of them to 6 others.
  EXPECT_NEAR(seconds(CollectiveAlgorithm::scatter, table, link), 2 * alpha + (bytes + 6 * message) * beta, 1e-6);
  const SegmentTable small = one_owner(700, 8);
  EXPECT_NEAR(seconds(CollectiveAlgorithm::scatter, small, link), 2 * alpha + (2800 + 6 * 400) * beta, 1e-9);
  EXPECT_NEAR(seconds(CollectiveAlgorithm::chain, small, link), 7 * (alpha + 2800 * beta), 1e-12) << "one message";
}

TEST(PlanCollectiveModel, messages_are_shorter_where_there_are_links_between_ranks) {
  EXPECT_EQ(message_elements(make_topology(1, 1)), exchange_block);
  EXPECT_EQ(message_elements(make_topology(8, 8)), exchange_block);
  EXPECT_EQ(message_elements(make_topology(8, 1)), link_block);
  EXPECT_EQ(message_elements(make_topology(9, 8)), link_block) << "one rank alone on its node";
  EXPECT_EQ(message_elements({{3, 3, 3, 1}}), link_block) << "nodes have any numbers";
}

TEST(PlanCollectiveModel, even_tables_by_hand) {
  const LinkModel link = plain(alpha, beta);
  const SegmentTable table = even_table(8 * 1000, 8);
  EXPECT_NEAR(seconds(CollectiveAlgorithm::direct, table, link), alpha + 7 * 4000 * beta, 1e-12);
  EXPECT_NEAR(seconds(CollectiveAlgorithm::chain, table, link), 7 * alpha + 7 * 4000 * beta, 1e-12);
  EXPECT_NEAR(seconds(CollectiveAlgorithm::tree, table, link), 3 * alpha + 7 * 4000 * beta, 1e-12);
  EXPECT_NEAR(seconds(CollectiveAlgorithm::scatter, table, link), seconds(CollectiveAlgorithm::direct, table, link),
              1e-12);
}

TEST(PlanCollectiveModel, what_is_shared_binds) {
  const SegmentTable table = even_table(8 * 1000, 8);
  LinkModel link = plain(0, beta);
  link.all_beta_seconds_per_byte = 2 * beta;  // all at once reach half
  EXPECT_NEAR(seconds(CollectiveAlgorithm::chain, table, link), 2 * 7 * 4000 * beta, 1e-12);
  EXPECT_NEAR(seconds(CollectiveAlgorithm::direct, one_owner(8000, 8), link), 7 * 32000 * beta, 1e-12)
      << "one sends: the mean node sends an eighth of it";
  link.contention = 3;
  EXPECT_NEAR(seconds(CollectiveAlgorithm::direct, table, link), 3 * 2 * 7 * 4000 * beta, 1e-12);
  EXPECT_NEAR(seconds(CollectiveAlgorithm::chain, table, link), 2 * 7 * 4000 * beta, 1e-12) << "each has one neighbour";

  // 4 nodes of 2: directly, each of 8 ranks sends its 1000 elements to 6 of other nodes, and both share the link.
  CollectiveProfile profile = between_nodes(plain(0, beta));
  profile.inside = plain(0, 0);
  profile.between->node_beta_seconds_per_byte = beta;
  const Topology pairs = make_topology(8, 2);
  EXPECT_NEAR(predicted_unshard_seconds(CollectiveAlgorithm::direct, table, pairs, profile), 2 * 6 * 4000 * beta,
              1e-12);
  EXPECT_NEAR(predicted_unshard_seconds(CollectiveAlgorithm::hierarchical, table, pairs, profile), 6 * 4000 * beta,
              1e-12)
      << "each byte once over each link";
}

TEST(PlanCollectiveModel, reduce_by_hand) {
  const LinkModel link = plain(alpha, beta);
  const Topology topology = make_topology(8, 1);
  const CollectiveProfile profile = between_nodes(link);
  const auto reduce = [&](CollectiveAlgorithm algorithm, const SegmentTable& table, std::int64_t passes, bool last) {
    const Reduce prepared = prepare_reduce(algorithm, table, topology, {passes, DType::float32, 1});
    return predicted_reduce_seconds(prepared, topology, profile, last ? passes - 1 : 0);
  };
  const SegmentTable even = even_table(8 * 1000, 8);
  for (const auto algorithm : {CollectiveAlgorithm::direct, CollectiveAlgorithm::scatter})
    EXPECT_NEAR(reduce(algorithm, even, 1, true), alpha + 7 * 4000 * beta, 1e-12);
  EXPECT_NEAR(reduce(CollectiveAlgorithm::direct, one_owner(8000, 8), 1, true), alpha + 7 * 32000 * beta, 1e-12);
  // 7 helpers sum a seventh each, and bring it to the owner.
  const SegmentTable one = one_owner(7000, 8);
  EXPECT_NEAR(reduce(CollectiveAlgorithm::scatter, one, 1, true), 2 * alpha + (28000 + 28000) * beta, 1e-9);
  // Many passes: everybody sums an eighth, and keeps it before the last one.
  const SegmentTable eighths = one_owner(8000, 8);
  EXPECT_NEAR(reduce(CollectiveAlgorithm::scatter, eighths, 1000, false), alpha + 7 * 4000 * beta, 1e-5);
}

TEST(PlanCollectiveModel, reduce_through_all_ranks_by_hand) {
  const Topology topology = make_topology(8, 1);
  const CollectiveProfile profile = between_nodes(plain(alpha, beta));
  const auto seconds_of = [&](CollectiveAlgorithm algorithm, const SegmentTable& table, std::int64_t group) {
    const Reduce reduce = prepare_reduce(algorithm, table, topology, {1, DType::float32, group});
    return predicted_reduce_seconds(reduce, topology, profile);
  };
  // 7 hops and one to the owner; one block is on the way over each of the 7, and at last to the owner.
  const SegmentTable one = one_owner(mebi, 8);
  const double bytes = 4 * mebi;
  const double expected = 8 * alpha + (bytes + 6 * message + message) * beta;
  EXPECT_NEAR(seconds_of(CollectiveAlgorithm::chain, one, 1), expected, 1e-9);
  EXPECT_NEAR(seconds_of(CollectiveAlgorithm::chain, one, 8), expected, 1e-9) << "one group, which is open on the way";
  EXPECT_NEAR(seconds_of(CollectiveAlgorithm::chain, one, 4), 5 * alpha + (2 * bytes + message) * beta, 1e-9)
      << "three hops in both groups at once, one from the first to rank 7, which receives both sums, one to the owner";
  // 4, 2 and 1 gradients up, and none down to the owner, who is the root.
  EXPECT_NEAR(seconds_of(CollectiveAlgorithm::tree, one_owner(10, 8), 1), 3 * alpha + 7 * 40 * beta, 1e-12);
  // Sums of the farthest four, two and one come down.
  EXPECT_NEAR(seconds_of(CollectiveAlgorithm::tree, even_table(80, 8), 1), 6 * alpha + 7 * (320 + 40) * beta, 1e-12);
}

TEST(PlanCollectiveModel, chooses_a_reduce_that_suits_the_links) {
  const auto reduce_of = [](const SegmentTable& table, int ranks_per_node, const CollectiveProfile& profile) {
    const auto ranks = static_cast<int>(table.intervals.size());
    return choose_reduce(table, make_topology(ranks, ranks_per_node), profile).algorithm;
  };
  CollectiveProfile contended = between_nodes(plain(alpha, beta));
  contended.between->all_beta_seconds_per_byte = beta;
  contended.between->contention = 3;
  EXPECT_EQ(reduce_of(even_table(64 * mebi, 8), 1, contended), CollectiveAlgorithm::chain);
  CollectiveProfile nodes = between_nodes(plain(alpha, beta));
  nodes.inside = plain(1e-1, 1e-12);
  nodes.between->node_beta_seconds_per_byte = beta;
  EXPECT_EQ(reduce_of(even_table(16 * mebi, 8), 4, nodes), CollectiveAlgorithm::hierarchical)
      << "the chain has six hops inside nodes, and direct sends twice as much between them";
  LinkModel slow = plain(1e-3, 1e-12);
  slow.message_seconds = 1e-3;
  EXPECT_EQ(reduce_of(even_table(64, 64), 1, between_nodes(slow)), CollectiveAlgorithm::tree);
}

TEST(PlanCollectiveModel, one_rank_or_nothing_takes_no_time) {
  const CollectiveProfile none;
  EXPECT_EQ(predicted_unshard_seconds(CollectiveAlgorithm::chain, even_table(100, 1), make_topology(1, 1), none), 0);
  EXPECT_EQ(predicted_reduce_seconds(prepare_reduce(CollectiveAlgorithm::direct, even_table(100, 1)),
                                     make_topology(1, 1), none),
            0);
  EXPECT_EQ(seconds(CollectiveAlgorithm::scatter, even_table(0, 8), plain(alpha, beta)), 0);
}

TEST(PlanCollectiveModel, more_bytes_or_slower_links_never_take_less) {
  for (const auto algorithm : {CollectiveAlgorithm::direct, CollectiveAlgorithm::chain, CollectiveAlgorithm::scatter,
                               CollectiveAlgorithm::tree, CollectiveAlgorithm::hierarchical}) {
    for (const bool even : {true, false}) {
      double before = 0;
      for (std::int64_t size = 4096; size <= 16 * mebi; size *= 4) {
        const SegmentTable table = even ? even_table(size, 8) : one_owner(size, 8);
        const double now = seconds(algorithm, table, plain(alpha, beta));
        EXPECT_GE(now, before) << name_of(algorithm) << " " << size;
        EXPECT_GE(seconds(algorithm, table, plain(alpha, 2 * beta)), now);
        EXPECT_GE(seconds(algorithm, table, plain(2 * alpha, beta)), now);
        before = now;
      }
    }
  }
}

CollectiveAlgorithm chosen(const SegmentTable& table, int ranks_per_node, const CollectiveProfile& profile) {
  const auto ranks = static_cast<int>(table.intervals.size());
  return choose_unshard(table, make_topology(ranks, ranks_per_node), profile).algorithm;
}

TEST(PlanCollectiveModel, chooses_few_hops_for_small_units_and_few_bytes_for_large_ones) {
  const CollectiveProfile profile = between_nodes(plain(alpha, beta));
  EXPECT_EQ(chosen(even_table(64, 8), 1, profile), CollectiveAlgorithm::direct);
  EXPECT_EQ(chosen(one_owner(10, 8), 1, profile), CollectiveAlgorithm::direct) << "alpha is all there is";
  EXPECT_EQ(chosen(one_owner(mebi, 8), 1, profile), CollectiveAlgorithm::scatter);
  // Where many destinations cost time, whatever is large goes from neighbour to neighbour.
  CollectiveProfile contended = profile;
  contended.between->all_beta_seconds_per_byte = beta;
  contended.between->contention = 2;
  EXPECT_EQ(chosen(even_table(16 * mebi, 8), 1, contended), CollectiveAlgorithm::chain);
  EXPECT_EQ(chosen(one_owner(16 * mebi, 8), 1, contended), CollectiveAlgorithm::chain);
  // Few links for many ranks.
  CollectiveProfile nodes = profile;
  nodes.inside = plain(1e-6, 1e-10);
  nodes.between->node_beta_seconds_per_byte = beta;
  EXPECT_EQ(chosen(even_table(16 * mebi, 8), 4, nodes), CollectiveAlgorithm::hierarchical);
  // Ranks that cannot send to many at a time, messages that cost much: a binomial tree.
  LinkModel slow = plain(1e-3, 1e-12);
  slow.message_seconds = 1e-3;
  EXPECT_EQ(chosen(one_owner(10, 64), 1, between_nodes(slow)), CollectiveAlgorithm::tree);

  const Topology topology = make_topology(8, 1);
  EXPECT_EQ(choose_reduce(even_table(8000, 8), topology, profile).algorithm, CollectiveAlgorithm::scatter);
  EXPECT_EQ(choose_reduce(one_owner(10, 8), topology, profile).algorithm, CollectiveAlgorithm::direct);
  EXPECT_EQ(choose_reduce(one_owner(mebi, 8), topology, profile).algorithm, CollectiveAlgorithm::scatter);
}

TEST(PlanCollectiveModel, the_choice_is_the_least_of_what_is_predicted_or_equal) {
  const SegmentTable table = one_owner(300000, 8);
  const Topology topology = make_topology(8, 1);
  const CollectiveProfile profile = between_nodes(plain(alpha, beta));
  const CollectiveChoice choice = choose_unshard(table, topology, profile);
  EXPECT_EQ(choice.seconds, predicted_unshard_seconds(choice.algorithm, table, topology, profile));
  for (const auto algorithm : {CollectiveAlgorithm::direct, CollectiveAlgorithm::chain, CollectiveAlgorithm::scatter,
                               CollectiveAlgorithm::tree, CollectiveAlgorithm::hierarchical})
    EXPECT_LE(choice.seconds, collective_tie * predicted_unshard_seconds(algorithm, table, topology, profile));
  const ReduceSettings settings{3, DType::float32, 1};
  const CollectiveChoice three = choose_reduce(table, topology, profile, settings);
  const Reduce prepared = prepare_reduce(three.algorithm, table, topology, settings);
  double seconds = 0;
  for (const std::int64_t pass : {0, 1, 2})
    seconds += predicted_reduce_seconds(prepared, topology, profile, pass);
  EXPECT_NEAR(three.seconds, seconds, 1e-12);
  for (const auto algorithm : {CollectiveAlgorithm::direct, CollectiveAlgorithm::chain, CollectiveAlgorithm::scatter,
                               CollectiveAlgorithm::tree, CollectiveAlgorithm::hierarchical}) {
    EXPECT_LE(three.seconds,
              collective_tie * predicted_reduce_step_seconds(algorithm, table, topology, profile, settings));
  }
}

TEST(PlanCollectiveModel, times_that_differ_by_less_than_a_calibration_can_tell_are_equal) {
  CollectiveProfile profile = between_nodes(plain(0, beta));
  const SegmentTable table = even_table(mebi, 8);
  profile.between->contention = 1.04;
  EXPECT_EQ(chosen(table, 1, profile), CollectiveAlgorithm::direct) << "chain takes 0.96 of it";
  profile.between->contention = 1.06;
  EXPECT_EQ(chosen(table, 1, profile), CollectiveAlgorithm::chain);
}

// Factors of 2 and 8 at 4 KiB and 64 KiB are 4 half way between, by logarithms, and stay beyond; tables between even
// and one owner take of both.
TEST(PlanCollectiveModel, what_a_calibration_measured_corrects_the_links) {
  const auto scatter = CollectiveAlgorithm::scatter;
  CollectiveProfile profile = between_nodes(plain(alpha, beta));
  profile.corrections = {{CollectiveOperation::unshard, scatter, false, 65536, 8.0},
                         {CollectiveOperation::unshard, scatter, false, 4096, 2.0},
                         {CollectiveOperation::unshard, scatter, true, 65536, 0.5},
                         {CollectiveOperation::reduce, scatter, false, 65536, 3.0}};
  const Topology topology = make_topology(8, 1);
  const auto unshard = [&](CollectiveAlgorithm algorithm, const SegmentTable& table) {
    return predicted_unshard_seconds(algorithm, table, topology, profile) /
           predicted_unshard_seconds(algorithm, table, topology, between_nodes(plain(alpha, beta)));
  };
  for (const auto& [elements, factor] :
       std::vector<std::pair<std::int64_t, double>>{{8, 2.0}, {1024, 2.0}, {4096, 4.0}, {16384, 8.0}, {1 << 20, 8.0}})
    EXPECT_NEAR(unshard(scatter, even_table(elements, 8)), factor, 1e-12) << elements;
  EXPECT_NEAR(unshard(scatter, one_owner(1024, 8)), 0.5, 1e-12);
  std::vector<std::int64_t> owned(8, 16384 / 16);
  owned[2] += 16384 / 2;  // 9/16 of all: half way from 1/8 to all
  EXPECT_NEAR(unshard(scatter, owners(owned)), 2.0, 1e-12);
  EXPECT_NEAR(unshard(CollectiveAlgorithm::chain, even_table(1024, 8)), 1.0, 1e-12);

  const Reduce reduce = prepare_reduce(scatter, even_table(1024, 8), topology);
  EXPECT_NEAR(predicted_reduce_seconds(reduce, topology, profile),
              3 * predicted_reduce_seconds(reduce, topology, between_nodes(plain(alpha, beta))), 1e-12);
  EXPECT_EQ(choose_unshard(even_table(1 << 16, 8), topology, profile).algorithm, CollectiveAlgorithm::direct);
  for (const auto algorithm : {CollectiveAlgorithm::direct, CollectiveAlgorithm::chain})
    profile.corrections.push_back({CollectiveOperation::unshard, algorithm, false, 65536, 100});
  EXPECT_EQ(choose_unshard(even_table(1 << 16, 8), topology, profile).algorithm, CollectiveAlgorithm::tree)
      << "what was measured to be slow is not chosen";
}

TEST(PlanCollectiveModel, a_choice_for_each_unit_of_a_plan) {
  const ModelSpec model = test::blocks(3, 64, 4, 2);
  const CollectiveProfile profile = between_nodes(plain(alpha, beta));
  const Plan plan = make_plan(model, 8);
  const auto units = choose_collectives(plan, make_topology(8, 1), profile);
  ASSERT_EQ(units.size(), 3U);
  for (std::size_t u = 0; u < units.size(); ++u) {
    const CollectiveChoice expected =
        choose_unshard(segment_table(plan.units[u].weights), make_topology(8, 1), profile);
    EXPECT_EQ(units[u].unshard.algorithm, expected.algorithm);
    EXPECT_EQ(units[u].unshard.seconds, expected.seconds);
  }
  const auto replicated = choose_collectives(make_replicated_plan(model, 8), make_topology(8, 1), profile);
  EXPECT_EQ(replicated[0].unshard.seconds,
            choose_unshard(even_table(element_count(model) / 3, 8), make_topology(8, 1), profile).seconds)
      << "chunks of the even cut";
  EXPECT_THROW(choose_collectives(plan, make_topology(4, 1), profile), ContractError);
}

// The figures of thousands of ranks come from counts, not from schedules of millions of messages.
TEST(PlanCollectiveModel, thousands_of_ranks) {
  const SegmentTable table = even_table(std::int64_t{1} << 30, 2048);
  CollectiveProfile profile = between_nodes(plain(1e-6, 1e-10));
  profile.inside = plain(1e-7, 1e-11);
  const double seconds = predicted_unshard_seconds(CollectiveAlgorithm::chain, table, make_topology(2048, 8), profile);
  EXPECT_NEAR(seconds, 4.0 * (1 << 30) * 1e-10, 0.1 * seconds);
  EXPECT_GT(choose_unshard(table, make_topology(2048, 8), profile).seconds, 0);
}

TEST(CollectiveProfiles, what_is_refused) {
  CollectiveProfile profile = between_nodes(plain(alpha, beta));
  validate(profile);
  for (const double bad : {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    for (double LinkModel::*figure :
         {&LinkModel::alpha_seconds, &LinkModel::message_seconds, &LinkModel::beta_seconds_per_byte,
          &LinkModel::node_beta_seconds_per_byte, &LinkModel::all_beta_seconds_per_byte, &LinkModel::contention}) {
      CollectiveProfile damaged = profile;
      (*damaged.between).*figure = bad;
      EXPECT_THROW(validate(damaged), InputError) << bad;
    }
  }
  profile.corrections = {{CollectiveOperation::unshard, CollectiveAlgorithm::chain, false, 1, 0.0}};
  EXPECT_THROW(validate(profile), InputError);
  profile.corrections = {{CollectiveOperation::unshard, CollectiveAlgorithm::chain, false, 0, 1.0}};
  EXPECT_THROW(validate(profile), InputError);
  profile.corrections.clear();
  profile.between->contention = 0;
  EXPECT_THROW(validate(profile), InputError);
  profile = between_nodes(plain(alpha, beta));
  profile.nodes = 9;
  EXPECT_THROW(validate(profile), InputError);
  profile.nodes = 0;
  EXPECT_THROW(validate(profile), InputError);
}

TEST(CollectiveProfiles, links_that_were_not_measured_are_not_guessed) {
  const CollectiveProfile profile = between_nodes(plain(alpha, beta));
  require_links(profile, make_topology(8, 1));
  require_links(profile, make_topology(1, 1));
  EXPECT_THROW(require_links(profile, make_topology(8, 2)), InputError);
  EXPECT_THROW(require_links({}, make_topology(2, 1)), InputError);
  EXPECT_THROW(choose_unshard(even_table(100, 4), make_topology(4, 4), profile), InputError);
  CollectiveProfile inside;
  inside.inside = plain(alpha, beta);
  require_links(inside, make_topology(4, 4));
  EXPECT_THROW(require_links(inside, make_topology(4, 2)), InputError);
}

TEST(CollectiveProfiles, every_figure_is_in_the_hash) {
  const CollectiveProfile profile = between_nodes(plain(alpha, beta));
  EXPECT_EQ(hash_of(profile), hash_of(between_nodes(plain(alpha, beta))));
  CollectiveProfile inside = profile;
  inside.inside = inside.between;
  inside.between.reset();
  EXPECT_NE(hash_of(profile), hash_of(inside));
  for (double LinkModel::*figure :
       {&LinkModel::alpha_seconds, &LinkModel::message_seconds, &LinkModel::beta_seconds_per_byte,
        &LinkModel::node_beta_seconds_per_byte, &LinkModel::all_beta_seconds_per_byte, &LinkModel::contention}) {
    CollectiveProfile other = profile;
    (*other.between).*figure += 0.5;
    EXPECT_NE(hash_of(profile), hash_of(other));
  }
  const CollectiveCorrection correction{CollectiveOperation::unshard, CollectiveAlgorithm::chain, false, 4096, 1.5};
  std::set<std::uint64_t> seen{hash_of(profile)};
  for (CollectiveCorrection other :
       {correction, CollectiveCorrection{CollectiveOperation::reduce, CollectiveAlgorithm::chain, false, 4096, 1.5},
        CollectiveCorrection{CollectiveOperation::unshard, CollectiveAlgorithm::direct, false, 4096, 1.5},
        CollectiveCorrection{CollectiveOperation::unshard, CollectiveAlgorithm::chain, true, 4096, 1.5},
        CollectiveCorrection{CollectiveOperation::unshard, CollectiveAlgorithm::chain, false, 4100, 1.5},
        CollectiveCorrection{CollectiveOperation::unshard, CollectiveAlgorithm::chain, false, 4096, 1.25}}) {
    CollectiveProfile corrected = profile;
    corrected.corrections = {other};
    EXPECT_TRUE(seen.insert(hash_of(corrected)).second);
  }
  CollectiveProfile ranks = profile;
  ranks.world_size = 16;
  EXPECT_NE(hash_of(profile), hash_of(ranks));
}

}  // namespace
}  // namespace matrixfsdp
