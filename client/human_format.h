#ifndef SANGAM_CLIENT_HUMAN_FORMAT_H_
#define SANGAM_CLIENT_HUMAN_FORMAT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/timestamp.pb.h"
#include "proto/job.pb.h"

// Numbers and times as people read them. Pure.
namespace sangam {

// "0.4s", "42s", "3m05s", "2h07m", "3d04h"; "0s" for what is not positive.
std::string HumanDuration(absl::Duration duration);

// Of short times: "830 us", "4.1 ms", "12.3 s"; "-" for what is not a positive number.
std::string HumanSeconds(double seconds);

// "512 B", "1.5 KiB", "3.0 GiB".
std::string HumanBytes(uint64_t bytes);

// With separators: "101,770".
std::string HumanCount(uint64_t count);

// "24103" from 100 on, "12.3" below.
std::string HumanRate(double per_second);

// Four decimals for everyday values, four digits for others: "0.3567", "1.235e+06", "nan".
std::string HumanLoss(double loss);

// What a job's losses are counted in, to stand behind the number: " nats/token" where the loss is a
// mean over tokens, else "".
std::string LossUnit(const v1::JobSpec& spec);

// Whether an evaluation counts what is right: numbers that a model comes near to are not.
bool HasAccuracy(const v1::JobSpec& spec);

// floor(100 * part / whole), at most 100; 0 when whole is 0.
uint64_t Percent(uint64_t part, uint64_t whole);

// Number of begun epochs of `steps` steps, for example in the whole job; 0 while an epoch's length
// is not known.
uint64_t EpochsOf(uint64_t steps, uint64_t steps_per_epoch);

absl::Time ToTime(const google::protobuf::Timestamp& time);

// SUCCEEDED, FAILED or CANCELLED: the job will never change again.
bool HasEnded(v1::JobState state);

// "RUNNING"; a number for a state that this program does not know.
std::string StateName(v1::JobState state);

// Control characters become spaces and runs of spaces one space, so that what a peer sent cannot
// break a line or move the cursor. Line breaks become "; ".
std::string OneLine(absl::string_view text);

// As OneLine, but line breaks stay.
std::string Printable(absl::string_view text);

}  // namespace sangam

#endif  // SANGAM_CLIENT_HUMAN_FORMAT_H_
