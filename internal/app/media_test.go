package app_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/eclipse/paho.golang/paho"
	"github.com/google/uuid"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/bridgetest"
)

// picture is what the camera sees: more than one message over MQTT has of it.
var picture = bytes.Repeat([]byte("\x89PNG picture "), 20_000)

// camera is a device that answers an image, and says so in the schema of its result.
func camera(t testing.TB, n *bridgetest.Node) {
	t.Helper()
	agent := n.Dial(t, client.WithAgent(client.Agent{ID: "camera-1"}))
	type seen struct {
		Room    string `json:"room"`
		Picture []byte `json:"picture"`
	}
	_, err := agent.ServeSkill(t.Context(), client.Skill{ID: "camera", Description: "Looks", Capabilities: []client.Capability{{
		ID: "look", Idempotent: true,
		ResultSchema: json.RawMessage(`{"type":"object","properties":{"room":{"type":"string"},"picture":{"type":"string","contentEncoding":"base64","contentMediaType":"image/png"}},"required":["room","picture"]}`),
		Handler: client.Handle(func(context.Context, *client.Invocation, struct{}) (seen, error) {
			return seen{"hall", picture}, nil
		}),
	}}})
	if err != nil {
		t.Fatal(err)
	}
}

// The official SDK of MCP, in the versions with and without sessions.
func TestClientsOfMCPSeeThePictureOfADevice(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	camera(t, n)
	for _, version := range []string{"2025-11-25", ""} {
		result, err := mcpClient(t, n, "", version, nil).CallTool(t.Context(), &sdk.CallToolParams{Name: "camera.look"})
		if err != nil || len(result.Content) != 2 {
			t.Fatalf("%q: %v %+v", version, err, result)
		}
		text, _ := result.Content[0].(*sdk.TextContent)
		image, _ := result.Content[1].(*sdk.ImageContent)
		if text == nil || image == nil || text.Text != fmt.Sprintf(`{"picture":"(image/png, %d bytes)","room":"hall"}`, len(picture)) || image.MIMEType != "image/png" || !bytes.Equal(image.Data, picture) {
			t.Errorf("%q: %.300v %v", version, text, image != nil)
		}
		structured, err := json.Marshal(result.StructuredContent)
		if err != nil || !strings.Contains(string(structured), base64.StdEncoding.EncodeToString(picture[:300])) {
			t.Errorf("%q: without the value that its schema demands: %.200s %v", version, structured, err)
		}
	}
}

const lookAround = `{"skill_id":"camera","capability_id":"look"}`

func TestClientsOfA2AGetThePictureOfADeviceAsAFile(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, agents)
	camera(t, n)
	c := &a2aClient{base: n.HTTPURL("")}
	_, text, _ := c.text(t, http.MethodPost, "/a2a/message:send", c.saying("m-1", `{"data":`+lookAround+`}`, ""))
	var answer struct {
		Task struct {
			Artifacts []struct {
				Parts []struct {
					Data      json.RawMessage `json:"data"`
					Raw       []byte          `json:"raw"`
					MediaType string          `json:"mediaType"`
				} `json:"parts"`
			} `json:"artifacts"`
		} `json:"task"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || len(answer.Task.Artifacts) != 1 || len(answer.Task.Artifacts[0].Parts) != 2 {
		t.Fatalf("%v %.500s", err, text)
	}
	data, file := answer.Task.Artifacts[0].Parts[0], answer.Task.Artifacts[0].Parts[1]
	if len(data.Data) > 100 || file.MediaType != "image/png" || !bytes.Equal(file.Raw, picture) {
		t.Errorf("%.200s, %s of %d bytes", data.Data, file.MediaType, len(file.Raw))
	}
}

// [A2AM-binary-1] [A2AM-binary-2]
func TestFilesOverMQTTComeAsTheyAreWhereThatIsAskedFor(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, onMQTT)
	camera(t, n)
	c := n.Connect(t, "acme/office/asker")
	const reply = "$a2a/v1/reply/acme/office/asker/r1"
	c.Listen(t, reply)
	ask := func(method, mode, task string) {
		t.Helper()
		var user paho.UserProperties
		if mode != "" {
			user.Add("a2a-artifact-mode", mode)
		}
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, messageOf(task, "", lookAround))
		reason := toldBy(t, c, &paho.Publish{Topic: "$a2a/v1/request/acme/bridge/home", Payload: []byte(body), Properties: &paho.PublishProperties{
			ResponseTopic: reply, CorrelationData: []byte(task), User: user,
		}})
		if reason >= 0x80 {
			t.Fatalf("%s is refused: %#x", method, reason)
		}
	}
	whole := base64.StdEncoding.EncodeToString(picture)
	for _, one := range []struct{ method, mode, chosen string }{
		{"SendMessage", "", ""}, {"SendMessage", "binary", "json"}, {"SendStreamingMessage", "", ""}, {"SendStreamingMessage", "json", "json"}, {"SendStreamingMessage", "tape", "json"},
	} {
		task := uuid.NewString()
		ask(one.method, one.mode, task)
		found := false
		for ended := false; !ended; {
			p := c.Next(t)
			found = found || bytes.Contains(p.Payload, []byte(whole))
			ended = bytes.Contains(p.Payload, []byte("TASK_STATE_COMPLETED"))
			if got := p.Properties.User.Get("a2a-artifact-mode"); got != one.chosen || string(p.Properties.CorrelationData) != task {
				t.Errorf("%+v: the mode is %q", one, got)
			}
		}
		if !found {
			t.Errorf("%+v: the picture is not there", one)
		}
	}

	task := uuid.NewString()
	ask("SendStreamingMessage", "binary", task)
	var file []byte
	var last string
	for number, ended := 0, false; !ended; {
		p := c.Next(t)
		user := p.Properties.User
		if string(p.Properties.CorrelationData) != task || user.Get("a2a-artifact-mode") != "binary" || bytes.Contains(p.Payload, []byte(whole[:300])) {
			t.Fatalf("got %.300s of %q with %v", p.Payload, p.Properties.CorrelationData, user)
		}
		if user.Get("a2a-event-type") == "" {
			ended = bytes.Contains(p.Payload, []byte("TASK_STATE_COMPLETED"))
			continue
		}
		if user.Get("a2a-event-type") != "task-artifact-update" || user.Get("a2a-task-id") != task || user.Get("a2a-artifact-id") != "result" || user.Get("a2a-context-id") == "" ||
			user.Get("a2a-chunk-seqno") != fmt.Sprint(number) || p.Properties.ContentType != "image/png" || p.Properties.PayloadFormat != nil && *p.Properties.PayloadFormat != 0 || p.QoS != 1 {
			t.Errorf("piece %d: %+v", number, p.Properties)
		}
		number++
		file, last = append(file, p.Payload...), user.Get("a2a-last-chunk")
	}
	if !bytes.Equal(file, picture) || last != "true" {
		t.Errorf("%d bytes of %d, the last says %q", len(file), len(picture), last)
	}
}
