#ifndef SANGAM_CLIENT_DOCTOR_FINDING_H_
#define SANGAM_CLIENT_DOCTOR_FINDING_H_

#include <string>
#include <vector>

namespace sangam {

enum class Verdict {
  kGood,
  kWarning,  // works, but will hurt one day
  kFault,    // does not work
  kSkipped,  // could not be looked at, or does not apply
};

// What `sangam doctor` says of one thing.
struct Finding {
  std::string subject;  // "disk /var/lib/sangam"
  Verdict verdict = Verdict::kGood;
  std::string found;  // one sentence, with the numbers
  std::string fix;    // what to do; empty when nothing is to be done
};

using Findings = std::vector<Finding>;

}  // namespace sangam

#endif  // SANGAM_CLIENT_DOCTOR_FINDING_H_
