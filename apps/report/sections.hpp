#pragma once

#include <string>
#include <vector>

#include "apps/report/run_file.hpp"

/// Parts of the page, each HTML; empty where no run has what it shows. Run k has color k.
namespace matrixfsdp::report {

using Runs = std::vector<RunFile>;

/// A line of figures for each run, with what is to be said of them.
std::string overview(const Runs& runs);

/// Loss, gradient norm, learning rate, speed.
std::string training_charts(const Runs& runs);

/// Where the time of a step goes, and its bytes.
std::string step_charts(const Runs& runs);

/// Memory of every rank: as counted at the end of a run, else as its plan predicts it.
std::string memory_charts(const Runs& runs);

/// Which rank owns which matrix, of each run that says so.
std::string owner_maps(const Runs& runs);

/// Norms and singular values of matrices, and steps that failed.
std::string health(const Runs& runs);

/// Options: those in which runs differ, and all of each run's.
std::string configurations(const Runs& runs);

}  // namespace matrixfsdp::report
