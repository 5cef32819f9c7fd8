// cli: vramlink doctor.
#include <unistd.h>

#include <optional>
#include <string>
#include <utility>

#include <vramlink/runtime.hpp>
#include <vramlink/version.hpp>

#include "commands.hpp"
#include "doctor/check.hpp"
#include "doctor/gpu_checks.hpp"
#include "doctor/host_checks.hpp"
#include "doctor/round_trip.hpp"
#include "json.hpp"
#include "stop_signals.hpp"

namespace vramlink::cli {
namespace {

std::string gpu_text(const doctor::GpuCount& gpus) {
  if (gpus.seen == 0) return "GPU no";
  return std::string("GPU ") + (gpus.ready > 0 ? "yes" : "no") + " (" + std::to_string(gpus.ready) +
         " of " + std::to_string(gpus.seen) + ")";
}

}  // namespace

int run(const DoctorOptions& options) {
  StopSignals signals;
  const StopSignals::Interrupt end_process(signals, [&signals] { ::_exit(signals.exit_code()); });
  const doctor::GpuDemand demand;
  doctor::Findings findings(options.json, options.strict);
  findings.begin("host", std::string("host memory, vramlink ") + version_string());
  doctor::check_kernel(findings);
  const std::optional<doctor::Place> place = doctor::check_directory(findings, options.group);
  bool host_ready = false;
  doctor::GpuCount gpus;
  if (place) {
    doctor::check_channels(findings, place->runtime);
    findings.add(doctor::check_round_trip(DeviceId::host(), DeviceId::host(), place->trip_group));
    host_ready = findings.usable("round-trip");
    gpus = doctor::check_gpus(findings, place->runtime, demand, place->trip_group);
  } else {
    findings.add({"round-trip", doctor::Verdict::skip, "needs the directory", {}});
    findings.begin("driver", "GPU driver");
    findings.add({"driver", doctor::Verdict::skip, "needs the directory", {}});
  }
  JsonObject ready;
  ready.set("host", host_ready).set("gpus", gpus.ready).set("gpus_seen", gpus.seen);
  return findings.finish(std::string("host ") + (host_ready ? "yes, " : "no, ") + gpu_text(gpus),
                         std::move(ready));
}

int run(const DoctorChildOptions& options) {
  return options.publisher ? doctor::run_trip_publisher(options)
                           : doctor::run_trip_subscriber(options);
}

}  // namespace vramlink::cli
