package cluster

// Preview are the promises that do not hold yet where all bridges work. Each line is in
// docs/operations.md too.
var Preview = []string{
	"Exclusive subscriptions are refused.",
}
