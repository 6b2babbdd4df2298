#ifndef SANGAM_TESTS_CLIENT_WEIGHTS_JOB_H_
#define SANGAM_TESTS_CLIENT_WEIGHTS_JOB_H_

#include <cstdint>
#include <string>

#include "proto/job.pb.h"
#include "proto/tensor.pb.h"

namespace sangam {

// A job that has ended, with one parameter "w" of four elements, held by one server.
inline v1::Job JobWithWeights(uint64_t id, const std::string& server) {
  v1::Job job;
  job.set_id(id);
  job.set_state(v1::SUCCEEDED);
  job.set_weights_available(true);
  job.add_server_address(server);
  v1::SegmentLayout& segment = *job.mutable_layout()->add_segment();
  segment.set_element_count(4);
  v1::ParameterLayout& parameter = *segment.add_parameter();
  parameter.set_name("w");
  parameter.add_shape(4);
  parameter.set_element_count(4);
  return job;
}

// The only page of such a job: all bytes are 'w'.
inline v1::TensorFrame PageOfWeights(uint64_t job) {
  v1::TensorFrame frame;
  v1::FrameHeader& header = *frame.mutable_header();
  header.set_job(job);
  header.set_step(9);
  header.set_element_count(4);
  header.set_encoding(v1::ENCODING_FP32);
  header.set_kind(v1::FRAME_KIND_WEIGHTS);
  frame.set_payload(std::string(16, 'w'));
  return frame;
}

}  // namespace sangam

#endif  // SANGAM_TESTS_CLIENT_WEIGHTS_JOB_H_
