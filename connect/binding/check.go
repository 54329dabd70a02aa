package binding

import (
	"encoding/json"

	"github.com/aibridge/aibridge/connect/device"
	"github.com/aibridge/aibridge/registry/schema"
)

// CheckParams fails if params do not fit a capability, as the bridge would.
func CheckParams(c *device.Capability, params json.RawMessage) error {
	source, err := schema.NewSource(c.Params)
	if err != nil {
		return err
	}
	compiled, err := schema.Compile(source, schema.Annotate)
	if err != nil {
		return err
	}
	return compiled.Check(params)
}
