package loop

import "time"

// Settings are the limits of a model's use of tools for one answer. Zero is the
// default, a negative value no limit.
type Settings struct {
	Rounds   int `yaml:"rounds" doc:"rounds of tools before a model has to answer; 0 is 10"`
	Calls    int `yaml:"calls" doc:"calls of tools in one answer; 0 is 50"`
	Tokens   int `yaml:"tokens" doc:"tokens of all questions and answers for one answer; 0 is no limit"`
	Seconds  int `yaml:"seconds" doc:"time for one answer, within that of the request; 0 is 300"`
	Repeats  int `yaml:"repeats" doc:"identical calls that fail before the model is warned; 0 is 3"`
	Failures int `yaml:"failures" doc:"calls that fail in a row before the user is asked; 0 is 5"`
	Window   int `yaml:"window" doc:"of how many calls the share of failures is watched; 0 is 10"`
	Errors   int `yaml:"errors" doc:"percent of these that fail when a conversation is locked; 0 is 80"`
	Depth    int `yaml:"depth" doc:"models that ask models by way of tools of the bridge; 0 is 16"`
	Running  int `yaml:"running" doc:"answers with tools that are under way at once for one principal; 0 is 64"`
	Offered  int `yaml:"offered" doc:"tools that a model is offered at most, the most relevant ones; 0 is 64"`
	Patience int `yaml:"embedding_ms" doc:"milliseconds that the choice among them waits for embeddings, if there is a model for these; 0 is 500"`
}

// Limits are the settings as limits of a [Runner], with the defaults.
func (l *Settings) Limits() Limits {
	return Limits{
		Rounds: l.Rounds, Calls: l.Calls, Tokens: l.Tokens, Time: time.Duration(l.Seconds) * time.Second, Repeats: l.Repeats,
		Failures: l.Failures, Window: l.Window, Errors: l.Errors, Offered: l.Offered, Depth: l.Depth, Running: l.Running,
	}.WithDefaults()
}
