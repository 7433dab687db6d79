// See ProfileTable.h. The name of a kernel comes last: it may be long.
#include "tools/ProfileTable.h"

namespace mgc {

namespace {

std::string rateOf(const ProfileRow &row) {
  const bool computes = row.kind == plan::WorkKind::product || row.kind == plan::WorkKind::attention;
  const double rate = (computes ? row.flops : row.bytes) / row.seconds * 1e-9;
  return row.seconds > 0 ? fmt::format("{:.1f} {}", rate, computes ? "GFLOP/s" : "GB/s") : "";
}

std::string percent(double part, double whole) { return fmt::format("{:.1f} %", 100 * part / whole); }

std::string describeRow(const Profile &profile, const ProfileRow &row) {
  const std::string fraction = row.seconds > 0 ? fmt::format("{:.2f}", row.bound / row.seconds) : "";
  return fmt::format("{:>7.1f} {:>9.3f} {:>7} {:>15} {:>6} {:>9.3f}  {:<10}  {}\n", row.calls, 1e3 * row.seconds,
                     percent(row.seconds, profile.step), rateOf(row), fraction, 1e3 * row.waiting, nameOf(row.kind),
                     row.kernel);
}

std::string describeParts(const Profile &profile) {
  std::string text = fmt::format("{:<20} {:>9} {:>7}\n", "part", "ms", "share");
  for (const ProfilePart &part : profile.parts)
    text += fmt::format("{:<20} {:>9.3f} {:>7}\n", part.name, 1e3 * part.seconds, percent(part.seconds, profile.step));
  return text + fmt::format("{:<20} {:>9.3f}\n", "step", 1e3 * profile.step);
}

} // namespace

std::string describeProfile(const Profile &profile) {
  std::string text =
      fmt::format("profile of {} step{} after the first, of one step and one of {} rank{} with {} thread{}\n",
                  profile.steps, profile.steps == 1 ? "" : "s", profile.ranks, profile.ranks == 1 ? "" : "s",
                  profile.threads, profile.threads == 1 ? "" : "s");
  text += fmt::format("{:>7} {:>9} {:>7} {:>15} {:>6} {:>9}  {:<10}  {}\n", "calls", "ms", "share", "rate", "bound",
                      "waits ms", "kind", "kernel");
  for (const ProfileRow &row : profile.rows)
    text += describeRow(profile, row);
  text += "\n" + describeParts(profile);
  const MachineRates &rates = profile.rates;
  const std::string bf16 =
      rates.bf16Flops > 0 ? fmt::format(" ({:.1f} of bf16)", 1e-9 * rates.bf16Flops) : std::string();
  text += fmt::format("\nbest matrix product {:.1f} GFLOP/s{}, memory {:.1f} GB/s, of all ranks together\n",
                      1e-9 * rates.flops, bf16, 1e-9 * rates.bytes);
  return text + fmt::format("bound {:.3g} s/step, this run {:.3g} s/step: {:.2f} of the bound\n", profile.bound,
                            profile.median, profile.fraction());
}

} // namespace mgc
