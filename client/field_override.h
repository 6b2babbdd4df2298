#ifndef SANGAM_CLIENT_FIELD_OVERRIDE_H_
#define SANGAM_CLIENT_FIELD_OVERRIDE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace sangam {

// Sets one field of `message`, as `--set path=value` asks. Pure.
//
//   path   names separated by dots, with [index] (from 0) behind the name of a list:
//          model.block[0].layer[1].dropout.rate
//   value  a number; true or false; the name of an enum value; a string, taken as it stands; for a
//          whole message or list its text format: {beta1: 0.9}, [28, 28]
//
// Setting a member of a oneof replaces the member that was set: "optimizer.momentum.momentum=0.9"
// and "optimizer.sgd={}" switch the optimizer. On error the message may have changed in part.
//
// Errors: InvalidArgument  the assignment has no '=', the path does not exist (names the element,
// what
//                          was found, and what there is), or the value does not fit the field
absl::Status ApplyOverride(absl::string_view assignment, google::protobuf::Message* message);

// Names of a message's fields, in the order of their declaration.
std::vector<std::string> FieldNames(const google::protobuf::Descriptor& type);

}  // namespace sangam

#endif  // SANGAM_CLIENT_FIELD_OVERRIDE_H_
