package app_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/protocol"
)

// wasAudited reports whether the trail has an entry that filters choose.
func (h *house) wasAudited(params string) bool {
	h.t.Helper()
	var found struct {
		Entries []json.RawMessage `json:"entries"`
	}
	if err := json.Unmarshal([]byte(h.must("audit.query", params)), &found); err != nil {
		h.t.Fatal(err)
	}
	return len(found.Entries) > 0
}

func TestNobodyIsCertifiedInAnothersName(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	csr := func(template x509.CertificateRequest) string {
		der, err := x509.CreateCertificateRequest(rand.Reader, &template, newKey(t))
		if err != nil {
			t.Fatal(err)
		}
		return string(pemOf("CERTIFICATE REQUEST", der))
	}
	key := h.key(protocol.KindAgent, "mallory", protocol.RoleEndAgent)
	somebody := func(uri string) []*url.URL {
		u, err := url.Parse(uri)
		if err != nil {
			t.Fatal(err)
		}
		return []*url.URL{u}
	}
	for name, test := range map[string]struct {
		csr, skill string
		want       protocol.Code
	}{
		"another's name in the request": {csr(x509.CertificateRequest{Subject: pkix.Name{CommonName: "lighting"}}), "mallory", protocol.OutsideScope},
		"another's identity":            {csr(x509.CertificateRequest{URIs: somebody("aibridge:agent/lighting")}), "mallory", protocol.OutsideScope},
		"names of hosts":                {csr(x509.CertificateRequest{DNSNames: []string{"localhost"}}), "mallory", protocol.OutsideScope},
		"not a request":                 {"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n", "mallory", protocol.InvalidParameter},
	} {
		params, err := json.Marshal(map[string]any{"authority": "operator", "skill_id": test.skill, "role": "agent_route", "scene_types": []string{"SMART_HOME"}, "csr": test.csr})
		if err != nil {
			t.Fatal(err)
		}
		if code, body := h.run(h.admin, "cert.issue", string(params)); code != test.want {
			t.Errorf("%s: %s", name, body)
		}
		if code, body := h.run(key, "cert.issue", string(params)); code != protocol.PermissionDenied {
			t.Errorf("%s, by a device: %s", name, body)
		}
	}
	if !h.wasAudited(`{"event":"cert.issue","code":"2003","principal":"mallory"}`) || !h.wasAudited(`{"event":"cert.issue","code":"2008"}`) {
		t.Error("the trail does not have the refusals")
	}
}

func TestFiltersThatReachFurtherAreRefused(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	lamp := h.connect("lamp-client", h.key(protocol.KindAgent, "lamp", protocol.RoleEndAgent))
	h.connect("other-client", h.key(protocol.KindAgent, "other", protocol.RoleEndAgent))
	h.must("cap.declare", `{"cap_id":"home","cap_name":"Home","skill_id":"router"}`)
	for _, filter := range []string{
		"#", "+/#", "+/agent/lamp/request", "aibridge/#", "aibridge", "aibridge/+/lamp/request", "aibridge/agent/#", "aibridge/agent/+/request",
		"aibridge/agent/other/request", "aibridge/agent/lamp/#", "aibridge/agent/lamp/response", "aibridge/bridge/request", "aibridge/bridge/#",
		"aibridge/client/+/response", "aibridge/client/#", "aibridge/client/other-client/response", "aibridge/client/lamp-client/#",
		"aibridge/cap/home/message/#", "aibridge/cap/+/message/#", "aibridge/cap/home/#", "aibridge/cap/home/data/g/k",
		"aibridge/scene/+/+/event", "aibridge/task/+/event", "aibridge/event/security", "aibridge/event/#", "aibridge/vfs/#",
		"$SYS/#", "$share/g/#", "$share/g/aibridge/agent/other/request", "$share/g/aibridge/+/lamp/request", "$aibridge/#",
	} {
		if code := subscribe(t, lamp, filter); code < 0x80 {
			t.Errorf("%s: SUBACK %#x", filter, code)
		}
	}
	for _, filter := range []string{"aibridge/agent/lamp/request", "$share/g/aibridge/agent/lamp/request", "aibridge/client/lamp-client/response", "home/#"} {
		if code := subscribe(t, lamp, filter); code != 1 {
			t.Errorf("%s, which is its own: SUBACK %#x", filter, code)
		}
	}
}

// raw sends bytes to the HTTP door as they are and returns the status, 0 if the
// connection was closed without one, and the body.
func raw(t *testing.T, address, request string) (int, string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(bridgetest.Patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		return 0, ""
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, ""
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

func TestPathsAndHeadersOpenNoOtherDoor(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	lamp := h.key(protocol.KindAgent, "lamp", protocol.RoleEndAgent)
	const commands = "/api/v1/commands/"
	post := func(path, body string, headers ...string) string {
		var b bytes.Buffer
		fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nConnection: close\r\n", path, h.HTTP)
		for _, line := range headers {
			b.WriteString(line + "\r\n")
		}
		if !strings.Contains(b.String(), "Transfer-Encoding") && !strings.Contains(b.String(), "Content-Length") {
			fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
		}
		b.WriteString("\r\n" + body)
		return b.String()
	}
	mine, theirs := "X-API-Key: "+lamp, "X-API-Key: "+h.admin
	for name, test := range map[string]struct {
		request string
		want    []int // any of
	}{
		"the right way":                    {post(commands+"task.list", `{}`, mine), []int{200}},
		"what only administrators may":     {post(commands+"key.list", `{}`, mine), []int{403}},
		"a path with dots":                 {post(commands+"task.list/../key.list", `{}`, mine), []int{301, 307, 308, 400, 403, 404}},
		"encoded dots":                     {post(commands+"task.list/%2e%2e/key.list", `{}`, mine), []int{301, 307, 308, 400, 403, 404}},
		"an encoded slash":                 {post(commands+"task.list%2fkey.list", `{}`, mine), []int{400, 404}},
		"two slashes":                      {post("//api//v1/commands/key.list", `{}`, mine), []int{301, 307, 308, 404}},
		"NUL in the path":                  {post(commands+"key.list%00", `{}`, mine), []int{400, 404}},
		"another case":                     {post(commands+"KEY.LIST", `{}`, mine), []int{400, 404}},
		"two keys":                         {post(commands+"key.list", `{}`, mine, theirs), []int{401}},
		"a key and another as bearer":      {post(commands+"key.list", `{}`, mine, "Authorization: Bearer "+h.admin), []int{401}},
		"two authorizations":               {post(commands+"key.list", `{}`, "Authorization: Bearer "+lamp, "Authorization: Bearer "+h.admin), []int{401}},
		"two keys in one line":             {post(commands+"key.list", `{}`, mine+", "+h.admin), []int{401}},
		"a key behind a folded line":       {post(commands+"key.list", `{}`, "X-API-Key: \r\n "+h.admin+"x"), []int{400, 401}},
		"said to come from elsewhere":      {post(commands+"key.list", `{}`, "X-Forwarded-For: 127.0.0.1", "X-Real-IP: 127.0.0.1", "X-Forwarded-User: administrator"), []int{401}},
		"said to have a certificate":       {post(commands+"key.list", `{}`, "X-SSL-Client-Verify: SUCCESS", "X-Client-Cert: lamp", "Forwarded: for=127.0.0.1"), []int{401}},
		"another method by header":         {"GET " + commands + "key.list HTTP/1.1\r\nHost: " + h.HTTP + "\r\nX-HTTP-Method-Override: POST\r\n" + theirs + "\r\nConnection: close\r\n\r\n", []int{405}},
		"two lengths":                      {post(commands+"task.list", `{}`, mine, "Content-Length: 2", "Content-Length: 40"), []int{400}},
		"a length and chunks, which count": {post(commands+"task.list", "2\r\n{}\r\n0\r\n\r\n", mine, "Content-Length: 2", "Transfer-Encoding: chunked"), []int{0, 200, 400}},
		"chunks that are none":             {post(commands+"task.list", "zz\r\n{}", mine, "Transfer-Encoding: chunked"), []int{0, 400}},
		"an encoding nobody speaks":        {post(commands+"task.list", "{}", mine, "Transfer-Encoding: gzip, chunked"), []int{0, 400, 501}},
		"a name of another host":           {"POST " + commands + "task.list HTTP/1.1\r\nHost: evil.example\r\n" + mine + "\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}", []int{403}},
		"two names of hosts":               {"POST " + commands + "task.list HTTP/1.1\r\nHost: " + h.HTTP + "\r\nHost: evil.example\r\n" + mine + "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", []int{400}},
		"an absolute path elsewhere":       {"POST http://evil.example" + commands + "task.list HTTP/1.1\r\nHost: " + h.HTTP + "\r\n" + mine + "\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}", []int{400, 403}},
		"an encoded body":                  {post(commands+"task.list", `{}`, mine, "Content-Encoding: br"), []int{415}},
		"a principal of one's own choice":  {post(commands+"key.list?principal=administrator&api_key="+h.admin, `{}`), []int{401}},
	} {
		status, body := raw(t, h.HTTP, test.request)
		ok := false
		for _, want := range test.want {
			ok = ok || status == want
		}
		if !ok {
			t.Errorf("%s: %d %s, want %d", name, status, body, test.want)
		}
		if strings.Contains(body, h.admin) || strings.Contains(body, `"total"`) && status != 200 {
			t.Errorf("%s: tells %s", name, body)
		}
	}
	// What the bridge goes by is the connection's own address.
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.HTTPURL(commands+"key.list"), strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{"X-Api-Key": {lamp}, "Content-Type": {"application/json"}, "X-Forwarded-For": {"203.0.113.9"}}
	response, err := bridgetest.HTTPClient(t).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if !h.wasAudited(`{"event":"key.list","code":"2003","principal":"lamp"}`) || !h.wasAudited(`{"event":"login.failed"}`) {
		t.Error("the trail does not have the refusals")
	}
	if trail := h.must("audit.query", `{"event":"key.list","principal":"lamp"}`); strings.Contains(trail, "203.0.113.9") || !strings.Contains(trail, "127.0.0.1") {
		t.Errorf("audited with the address that was claimed: %s", trail)
	}
}

func TestABrokenPolicyIsRefusedAndChangesNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	otto := h.key(protocol.KindOperator, "otto", protocol.RoleObserver)
	h.must("policy.put", `{"name":"mine","policy":"forbid (principal == Operator::\"otto\", action == Action::\"agent:list\", resource);"}`)
	for name, text := range map[string]string{
		"does not parse":           `permit (principal, action`,
		"an action there is not":   `permit (principal, action == Action::\"agent:lst\", resource);`,
		"a type there is not":      `permit (principal is Robot, action, resource);`,
		"an attribute there isn't": `permit (principal, action == Action::\"agent:list\", resource) when { principal.shoe == 42 };`,
		"nothing":                  `   `,
	} {
		if code, body := h.run(h.admin, "policy.put", `{"name":"mine","policy":"`+text+`"}`); code != protocol.InvalidParameter {
			t.Errorf("%s: %s", name, body)
		}
		if code, body := h.run(otto, "agent.list", `{}`); code != protocol.PermissionDenied {
			t.Errorf("after what %s, the working policy is not in force: %s", name, body)
		}
	}
	if code, body := h.run(otto, "policy.put", `{"name":"own","policy":"permit (principal, action, resource);"}`); code != protocol.PermissionDenied {
		t.Errorf("an observer puts a policy: %s", body)
	}
	if !h.wasAudited(`{"event":"policy.put","code":"1001"}`) || !h.wasAudited(`{"event":"policy.put","code":"2003","principal":"otto"}`) {
		t.Error("the trail does not have the refusals")
	}
}
