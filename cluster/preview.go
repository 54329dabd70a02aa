package cluster

// Preview is what does not hold yet where all bridges work. Each line is in
// docs/operations.md too.
var Preview = []string{
	"The Will of a clean session can be missing when most bridges that form their cluster were killed, or one lost its disk, and they come back: the drill missed one in every second such round.",
	"A backup has the MQTT sessions of the bridge that makes it.",
}
