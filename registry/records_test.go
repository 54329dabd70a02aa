package registry

import (
	"fmt"
	"testing"

	"github.com/aibridge/aibridge/internal/records/recordstest"
)

// A field that is added to a record survives every command that changes it,
// unless it is one of those that the command is about.
func TestUpdatesKeepTheOtherFields(t *testing.T) {
	t.Parallel()
	w := newSkillWorld(t)
	lamp := endAgent("lamp")

	recordstest.Survives(t, w.agents, "default/lamp", func() {
		w.do(lamp, "agent.register", `{"agent_id":"lamp","type":"end_agent","name":"The lamp"}`, nil)
	}, "Type", "Name", "Endpoints", "ClientID", "CertSerial", "Routes", "UpdatedAt")

	recordstest.Survives(t, w.skills, "default/light", func() {
		w.do(lamp, "skill.register", `{"agent_id":"lamp","skill":{"skill_id":"light","name":"Another","capabilities":["on"]}}`, nil)
	}, "Name", "Description", "Type", "Version", "Endpoints", "Capabilities", "EncryptionKeys", "UpdatedAt")
	recordstest.Survives(t, w.skills, "default/light", func() {
		w.do(operator, "skill.provider.add", `{"skill_id":"light","agent_id":"lamp-2"}`, nil)
	}, "Providers", "UpdatedAt")
	recordstest.Survives(t, w.skills, "default/light", func() {
		w.do(operator, "skill.provider.remove", `{"skill_id":"light","agent_id":"lamp-2"}`, nil)
	}, "Providers", "UpdatedAt")

	w.do(lamp, "resource.register", `{"resource":{"resource_id":"bulb","name":"B","type":"device"}}`, nil)
	recordstest.Survives(t, w.resources, "default/bulb", func() {
		w.do(lamp, "resource.register", `{"resource":{"resource_id":"bulb","name":"C","type":"device"}}`, nil)
	}, "Name", "Type", "Status", "Description", "Properties", "UpdatedAt")
}

func TestTheUseOfAJoinTokenKeepsItsOtherFields(t *testing.T) {
	t.Parallel()
	w := newSkillWorld(t)
	made := w.join(operator, `{"skill_id":"light","uses":2}`)
	recordstest.Survives(t, w.opts.Joins, "default/"+made.ID, func() {
		w.do(endAgent("lamp-2"), "skill.register", lightBy("lamp-2", fmt.Sprintf(`,"join":%q`, made.Token)), nil)
	}, "Agents", "-Barred")
}
