package main

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var waterSpec = commands.Spec{
	Name:    "greenhouse.water",
	Summary: "Open a valve for a while.",
	Effect:  commands.Act,
	Action:  "greenhouse:water",
	Example: `{"bed":"tomatoes","seconds":30}`,
}

// waterParams are the params of greenhouse.water. The bridge refuses anything else
// with 1001 and the name of the field before water is called.
type waterParams struct {
	Bed     string `json:"bed" len:"1-32" doc:"the bed to water"`
	Seconds int    `json:"seconds" range:"1-600" doc:"for how long"`
}

type waterResult struct {
	Bed    string  `json:"bed" doc:"the bed that was watered"`
	Litres float64 `json:"litres" doc:"water that it got, in litres"`
}

// water would open a valve here.
func water(_ context.Context, _ *commands.Call, p waterParams) (waterResult, error) {
	return waterResult{p.Bed, 0.2 * float64(p.Seconds)}, nil
}

// shade is a permission check: nobody waters in the midday sun, whatever policy
// allows.
type shade struct{ now func() time.Time }

// Check implements [commands.PermissionCheck].
func (s shade) Check(_ context.Context, _ *commands.Call, action string, _ commands.Resource) error {
	if hour := s.now().Hour(); action == "greenhouse:water" && hour >= 11 && hour < 16 {
		return protocol.Errorf(protocol.PermissionDenied, "the sun is too strong to water").
			With("reason", "water before 11 or after 16 o'clock")
	}
	return nil
}
