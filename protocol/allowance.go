package protocol

// An Allowance bounds what a credential may ask of language models, whatever
// budgets there are besides. Zero limits bound nothing.
type Allowance struct {
	Models    []string `json:"models,omitempty" len:"0-64" each:"1-128" text:"line" doc:"models that it may ask, by name or alias; none limits nothing"`
	Window    string   `json:"window,omitempty" enum:"hour,day,month" default:"month" doc:"window of time, in UTC, that tokens, cost and requests are counted in"`
	Tokens    int64    `json:"tokens,omitempty" range:"1-1000000000000" doc:"most tokens, of questions and answers, in a window"`
	Cost      float64  `json:"cost,omitempty" range:"0-1000000000" doc:"most that answers may cost in a window, in the currency of the configured prices"`
	Requests  int64    `json:"requests,omitempty" range:"1-1000000000" doc:"most requests in a window"`
	PerMinute int64    `json:"requests_per_minute,omitempty" range:"1-1000000" doc:"most requests in a minute"`
}

// Validate checks the rules that tags of fields cannot express.
func (a *Allowance) Validate() error {
	if a.Tokens == 0 && a.Cost == 0 && a.Requests == 0 && a.PerMinute == 0 && len(a.Models) == 0 {
		return InvalidParam("models", "is missing, and so is every limit; leave out all of it for a key without limits")
	}
	return nil
}
