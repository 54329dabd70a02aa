package app_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/bridgetest"
)

// TestEverythingInOpenAPIIsServed asks for every path and method of the
// document that is not a command's: there has to be something that refuses an
// empty request for what it lacks, or serves it.
func TestEverythingInOpenAPIIsServed(t *testing.T) {
	n := bridgetest.Start(t)
	var document struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if status, body := ask(t, http.MethodGet, n.HTTPURL("/openapi.json")); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	} else if err := json.Unmarshal(body, &document); err != nil {
		t.Fatal(err)
	}
	if _, ok := document.Paths["/pki/enroll"]; !ok {
		t.Error("enrolment is not described")
	}
	files := 0
	for path, methods := range document.Paths {
		if strings.HasPrefix(path, "/api/v1/commands/") {
			continue
		}
		if strings.HasPrefix(path, "/vfs/") {
			files++
		}
		if path == "/api/v1/tasks/{task_id}" || strings.HasPrefix(path, "/vfs/uploads/{upload_id}") {
			continue // without that task or upload there is nothing
		}
		for method := range methods {
			path := strings.ReplaceAll(path, "{authority}", "operator")
			status, body := ask(t, strings.ToUpper(method), n.HTTPURL(path))
			if status == http.StatusNotFound || status == http.StatusMethodNotAllowed || status >= 500 && status != http.StatusServiceUnavailable {
				t.Errorf("%s %s = %d %s", method, path, status, body)
			}
		}
	}
	if files < 7 {
		t.Errorf("only %d paths of files are described", files)
	}
}

// ask makes a request without a body.
func ask(t *testing.T, method, url string, header ...string) (status int, answer []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := bridgetest.HTTPClient(t).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if answer, err = io.ReadAll(response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, answer
}
