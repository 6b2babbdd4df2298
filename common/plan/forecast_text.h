#ifndef SANGAM_COMMON_PLAN_FORECAST_TEXT_H_
#define SANGAM_COMMON_PLAN_FORECAST_TEXT_H_

#include <cstdint>
#include <string>

#include "proto/forecast.pb.h"
#include "proto/job.pb.h"

// What forecasts say to people.
namespace sangam {

// "412.3 MiB"; "1000 bytes" below 1 MiB.
std::string BytesText(uint64_t bytes);

// "1.25 s", "12.3 ms" or "45.6 us".
std::string SecondsText(double seconds);

// "worker w-1 needs 412.3 MiB, its limit is 256.0 MiB"; in bytes when they would read alike.
std::string MemoryObstacle(const std::string& worker, uint64_t needed, uint64_t limit);

// "INTERLEAVED with 3 workers and 2 stages on each".
std::string PipelineText(v1::Schedule schedule, uint32_t ranks, uint32_t chunks);

// Sets data, purpose, method and scaling of a forecast whose numbers are set; `shares` of the job.
void Describe(uint32_t shares, v1::StrategyForecast* forecast);

}  // namespace sangam

#endif  // SANGAM_COMMON_PLAN_FORECAST_TEXT_H_
