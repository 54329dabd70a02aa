// Package script runs the scripts of skills.
//
// A script gets the parameters as a JSON object on standard input, and the
// small scalars among them as AIBRIDGE_PARAM_<NAME> too. It writes its result
// as one JSON value to standard output; nothing means {}. Its output to
// standard error is kept for the log and for the error, except lines
//
//	::progress 40 reading sensors
//
// which become progress of the call. It fails by exiting with another status
// than 0; docs/skills.md has the table of statuses and codes.
//
// A script runs in its skill's folder, with only those variables of the agent's
// environment that are listed in [Options], and in a process group of its own. When it
// ends, however it ends, the rest of the group is killed. Time, output and the number of
// scripts at a time are bounded.
package script
