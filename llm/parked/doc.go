// Package parked stores calls that wait for an approval: the conversation of a model
// with the tool call that it wants, or a call alone. A waiting call is a record and
// nothing else, and survives a restart of the bridge.
//
// A parked call is a task. [Service.Park] stores the task and then opens its approval;
// [Service.Await] waits for its end. Once the approval is settled, the service gets the
// current principal from the grant, and a [Continue] resumes the call. It takes the
// task up by a compare-and-set, on the approval that it uses or on the record of the
// task, and stores its state with every step, so that another bridge repeats no step
// after a crash. See docs/approvals.md.
package parked
