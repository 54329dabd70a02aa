package commands

import (
	"bytes"
	"encoding/json"
	"strings"
)

// proofField is the member of an extension with the proof, for this bridge alone,
// that the caller holds a certificate's key.
const proofField = "proof"

// VendorData is the extension of the request as it is passed on to agents and
// endpoints: all but the proof of possession, which is a credential. It is nil
// if nothing is left.
func (c *Call) VendorData() json.RawMessage {
	if len(c.Extension) == 0 || !bytes.Contains(bytes.ToLower(c.Extension), []byte(proofField)) && bytes.IndexByte(c.Extension, '\\') < 0 {
		return c.Extension
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(c.Extension, &members) != nil {
		return nil
	}
	for name := range members {
		if strings.EqualFold(name, proofField) {
			delete(members, name)
		}
	}
	if len(members) == 0 {
		return nil
	}
	rest, err := json.Marshal(members)
	if err != nil {
		return nil
	}
	return rest
}
