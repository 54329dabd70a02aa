// Package parked keeps what waits for somebody to agree: the conversation of a
// model with the call that it wants to make, or one call alone. It costs a record
// and nothing else while it waits, and outlives the bridge.
//
// What is parked is a task. [Service.Park] stores it and then has the question
// asked; whoever wants to wait for a while calls [Service.Await]. When the
// question is settled the service asks the grant for the principal as it is now, and
// has a [Continue] go on. That takes the task up by a compare-and-set, on the approval
// that it uses or on the record of the task, and notes how far it is with every step,
// so that a bridge that goes on with it after a crash does nothing twice. See
// docs/approvals.md.
package parked
