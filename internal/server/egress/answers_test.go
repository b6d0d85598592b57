package egress

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
)

// clientOf returns how a webhook of a tenant is called.
func clientOf(t *testing.T) *http.Client {
	t.Helper()
	config, err := Options{Allowed: []net.IPNet{network("127.0.0.0/8")}}.restrict("acme", &rest.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestRedirects checks that a webhook does not lead the server to others.
func TestRedirects(t *testing.T) {
	var asked atomic.Int32
	internal := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		http.Error(w, "what only the server may see", http.StatusBadRequest)
	}))
	defer internal.Close()
	for _, code := range []int{
		http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
	} {
		hook := httptest.NewServer(http.RedirectHandler(internal.URL, code))
		response, err := clientOf(t).Post(hook.URL, "application/json", strings.NewReader("{}"))
		hook.Close()
		if err == nil {
			_ = response.Body.Close()
			t.Errorf("%d: got an answer", code)
		} else if !strings.Contains(err.Error(), "none is followed") {
			t.Errorf("%d: %v, want that no redirect is followed", code, err)
		}
	}
	if asked.Load() > 0 {
		t.Error("the other server was asked")
	}
}

// TestLargeAnswers checks that the server does not read for as long as a webhook sends.
func TestLargeAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		asked int
		size  int
		large bool
	}{
		"empty":                   {size: 0},
		"as allowed":              {size: maxAnswer},
		"one byte more":           {size: maxAnswer + 1, large: true},
		"much more":               {size: 4 * maxAnswer, large: true},
		"large request":           {asked: 1000, size: maxAnswer + 4000},
		"too large for a request": {asked: 1000, size: maxAnswer + 4001, large: true},
	} {
		t.Run(name, func(t *testing.T) {
			hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				answer := io.MultiReader(strings.NewReader("{"), endless{})
				_, _ = io.CopyN(w, answer, int64(tc.size)) // the client goes away
			}))
			defer hook.Close()
			response, err := clientOf(t).Post(hook.URL, "application/json", strings.NewReader(strings.Repeat(" ", tc.asked)))
			if tc.large {
				if !errors.Is(err, errTooLarge) {
					t.Errorf("got %v, want that there are too many bytes", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if data, err := io.ReadAll(response.Body); err != nil || len(data) != tc.size {
				t.Errorf("got %d bytes, %v; want %d", len(data), err, tc.size)
			}
		})
	}
}

// answering is a webhook that always answers the same.
func answering(contentType, answer string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body) // who answers before would reset the connection
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, answer)
	})
}

// TestAnswersAreReadAsUpstreamReadsThem checks that no other format, and no field that is there
// twice, hides a patch.
func TestAnswersAreReadAsUpstreamReadsThem(t *testing.T) {
	slow := base64.StdEncoding.EncodeToString([]byte(`[{"op":"add","path":"/spec","value":{"overhead":{"cpu":"1e-1000000000"}}}]`))
	quick := base64.StdEncoding.EncodeToString([]byte(`[{"op":"add","path":"/a","value":"1"}]`))
	for name, tc := range map[string]struct{ contentType, answer, message string }{
		"YAML":                 {"application/yaml", "response: {patch: " + slow + "}", "no JSON object"},
		"YAML, named JSON":     {"application/json", "response: {patch: " + slow + "}", "no JSON object"},
		"protobuf":             {"application/vnd.kubernetes.protobuf", "k8s\x00", "no JSON object"},
		"text, as Go names it": {"text/plain; charset=utf-8", `{"response":{"patch":"` + slow + `"}}`, "the number"},
		"JSON, named text":     {"text/plain; charset=utf-8", " \n" + `{"response":{}}`, ""},
		"no answer":            {"application/json", "", ""},
		"two patches":          {"application/json; charset=utf-8", `{"response":{"patch":"` + quick + `","patch":"` + slow + `"}}`, "the number"},
		"two responses":        {"application/json", `{"response":{"patch":"` + slow + `"},"response":{"uid":"u"}}`, "the number"},
		"a name with escapes":  {"application/json", `{"response":{"p\u0061tch":"` + slow + `"}}`, "the number"},
		"another field":        {"application/json", `{"response":{"Patch":"` + slow + `"}}`, ""},
		"a patch":              {"application/json", `{"response":{"patch":"` + quick + `"}}`, ""},
		"no name of a type":    {"", `{"response":{"patch":"` + slow + `"}}`, "the number"},
		"an answer without it": {"application/json", `{"response":{}}`, ""},
		"no response":          {"application/json", `{"kind":"AdmissionReview"}`, ""},
		"no JSON":              {"application/json", `not allowed`, "no JSON object"},
		"no review":            {"application/json", `{"response":{"patch":"` + slow + `"},"request":[]}`, ""},
		"no patch":             {"application/json", `{"response":{"patch":"` + base64.StdEncoding.EncodeToString([]byte(`{"cpu":"1e-1000000000"}`)) + `"}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			handler := answering(tc.contentType, tc.answer)
			if tc.contentType == "" {
				handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header()["Content-Type"] = nil
					_, _ = io.WriteString(w, tc.answer)
				})
			}
			hook := httptest.NewServer(handler)
			defer hook.Close()
			response, err := clientOf(t).Post(hook.URL, "application/json", strings.NewReader(`{"request":{"object":{"apiVersion":"v1","kind":"Pod"}}}`))
			if err == nil {
				defer response.Body.Close()
			}
			if (err != nil) != (tc.message != "") || err != nil && !strings.Contains(err.Error(), tc.message) {
				t.Errorf("got %v, want %q", err, tc.message)
			}
		})
	}
}

// TestPatchesThatTakeLong checks that a webhook cannot make the server copy a list for
// minutes.
func TestPatchesThatTakeLong(t *testing.T) {
	for name, tc := range map[string]struct {
		operations, size, asked int
		refused                 bool
	}{
		"usual":                      {operations: 100, size: 10_000, asked: 10_000},
		"many operations":            {operations: 10_000, size: 10_000, asked: 1000},
		"long, of few operations":    {operations: 100, size: 3 << 20, asked: 3 << 20},
		"many, of a long list":       {operations: 10_000, size: 1 << 20, asked: 1000, refused: true},
		"many, of an object as long": {operations: 3000, size: 1000, asked: 3 << 20, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			patch := "[" + strings.Repeat(`{"op":"add","path":"/zz/0","value":0},`, tc.operations-1) +
				`{"op":"add","path":"/zz","value":"` + strings.Repeat("x", tc.size) + `"}]`
			answer := fmt.Sprintf(`{"response":{"allowed":true,"patchType":"JSONPatch","patch":%q}}`, base64.StdEncoding.EncodeToString([]byte(patch)))
			hook := httptest.NewServer(answering("application/json", answer))
			defer hook.Close()
			response, err := clientOf(t).Post(hook.URL, "application/json", strings.NewReader(strings.Repeat(" ", tc.asked)))
			if err == nil {
				defer response.Body.Close()
			}
			if errors.Is(err, errTooLong) != tc.refused || !tc.refused && err != nil {
				t.Errorf("got %v, want refused: %v", err, tc.refused)
			}
		})
	}
}

// TestPatchesOfQuantities checks that a webhook cannot make a quantity that takes hours to
// read or to compare, while others may change what looks alike.
func TestPatchesOfQuantities(t *testing.T) {
	const object = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"version":"7e1000000","slow":"7e-1000000000"}},` +
		`"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"1"}}}]}}`
	review := fmt.Sprintf(`{"request":{"object":%s}}`, object)
	for patch, message := range map[string]string{
		`[{"op":"add","path":"/metadata/labels/a","value":"1e-12345"}]`:                                                                     "",
		`[{"op":"replace","path":"/spec/containers/0/resources/limits/cpu","value":"1e3"}]`:                                                 "",
		`[{"op":"copy","from":"/metadata/labels/version","path":"/metadata/labels/a"}]`:                                                     "",
		`[{"op":"move","from":"/spec/containers/0/resources/limits","path":"/spec/containers/0/resources/requests"}]`:                       "",
		`[{"op":"copy","from":"/nothing","path":"/metadata/labels/a"}]`:                                                                     "",
		`[{"op":"replace","path":"/spec/containers/0/resources/limits/cpu","value":"1e-1000000000"}]`:                                       "the number",
		`[{"op":"replace","path":"/spec/containers/0/resources/limits/cpu","value":"1e1000000000"}]`:                                        "a quantity",
		`[{"op":"replace","path":"/spec/containers/0/resources/limits/cpu","value":"1e100000000"}]`:                                         "a quantity",
		`[{"op":"add","path":"/metadata/annotations","value":{"autoscaling.alpha.kubernetes.io/metrics":"[{\"averageValue\":1e-10000}]"}}]`: "the number",
		`[{"op":"copy","from":"/metadata/labels/version","path":"/spec/containers/0/resources/limits/cpu"}]`:                                "a quantity",
		`[{"op":"copy","from":"/metadata/labels/slow","path":"/spec/containers/0/resources/limits/cpu"}]`:                                   "the number",
		`[{"op":"move","from":"/metadata/labels","path":"/spec/containers/0/resources/limits"}]`:                                            "has an exponent",
	} {
		t.Run(patch, func(t *testing.T) {
			answer := fmt.Sprintf(`{"response":{"allowed":true,"patchType":"JSONPatch","patch":%q}}`, base64.StdEncoding.EncodeToString([]byte(patch)))
			hook := httptest.NewServer(answering("application/json", answer))
			defer hook.Close()
			response, err := clientOf(t).Post(hook.URL, "application/json", strings.NewReader(review))
			if err == nil {
				defer response.Body.Close()
			}
			if (err != nil) != (message != "") || err != nil && !strings.Contains(err.Error(), message) {
				t.Errorf("got %v, want %q", err, message)
			}
		})
	}
}

// TestPatchesOfCustomResources checks that fields which look like quantities are those of users, where no
// built-in type has them.
func TestPatchesOfCustomResources(t *testing.T) {
	patch := base64.StdEncoding.EncodeToString([]byte(`[{"op":"add","path":"/spec","value":{"limits":{"cpu":"1e-1000000000"}}}]`))
	hook := httptest.NewServer(answering("application/json", `{"response":{"patch":"`+patch+`"}}`))
	defer hook.Close()
	for apiVersion, message := range map[string]string{"example.com/v1": "", "v1": "the number"} {
		response, err := clientOf(t).Post(hook.URL, "application/json", strings.NewReader(`{"request":{"object":{"apiVersion":"`+apiVersion+`","kind":"Pod"}}}`))
		if err == nil {
			_ = response.Body.Close()
		}
		if (err != nil) != (message != "") || err != nil && !strings.Contains(err.Error(), message) {
			t.Errorf("%s: got %v, want %q", apiVersion, err, message)
		}
	}
}

// TestErrorsOfWebhooks checks that the client is given nothing that it would decode, and some of the text.
func TestErrorsOfWebhooks(t *testing.T) {
	bomb := "a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a,", 1000) + "]"
	for _, code := range []int{http.StatusBadRequest, http.StatusTooManyRequests, http.StatusInternalServerError} {
		for name, text := range map[string]string{"YAML": bomb, "JSON": `{"kind":"Status","status":"Failure","message":"` + strings.Repeat("x", 8<<20) + `"}`, "none": ""} {
			hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(code)
				_, _ = io.WriteString(w, text)
			}))
			response, err := clientOf(t).Post(hook.URL, "application/json", strings.NewReader("{}"))
			hook.Close()
			if err == nil {
				_ = response.Body.Close()
				t.Errorf("%d, %s: got an answer", code, name)
			} else if want := fmt.Sprintf("HTTP status %d", code); !strings.Contains(err.Error(), want) || len(err.Error()) > 2*maxText {
				t.Errorf("%d, %s: got %d bytes, %.100v, want %q", code, name, len(err.Error()), err, want)
			}
		}
	}
}

// TestLongMessages checks that webhooks do not fill logs by what they say.
func TestLongMessages(t *testing.T) {
	long := strings.Repeat("x", maxResult+1)
	for name, tc := range map[string]struct {
		answer  string
		refused bool
	}{
		"a message":             {`{"response":{"status":{"message":"` + long + `"}}}`, false},
		"a reason":              {`{"response":{"status":{"reason":"` + long + `"}}}`, false},
		"a cause":               {`{"response":{"status":{"details":{"causes":[{"message":"` + long + `"}]}}}}`, false},
		"audit annotations":     {`{"response":{"auditAnnotations":{"a":"` + long[:maxResult/2] + `","b":"` + long[:maxResult/2] + `"}}}`, true},
		"a long message":        {`{"response":{"status":{"message":"` + long[:maxResult-100] + `"}}}`, false},
		"a message and a patch": {`{"response":{"status":{"message":"no"},"patch":"` + base64.StdEncoding.EncodeToString([]byte(`[{"op":"add","path":"/a","value":"`+long+`"}]`)) + `"}}`, false},
	} {
		for kind, asked := range map[string]string{"admission": `{"request":{"object":{"apiVersion":"v1","kind":"Pod"}}}`, "conversion": `{"kind":"ConversionReview","request":{"objects":[` + strings.Repeat(`{"a":"`+strings.Repeat("x", 10_000)+`"},`, 5) + `{}]}}`} {
			answer := tc.answer
			if kind == "conversion" {
				if !strings.Contains(answer, `"status"`) || strings.Contains(answer, "patch") {
					continue
				}
				answer = strings.ReplaceAll(answer, `"status"`, `"result"`)
			}
			hook := httptest.NewServer(answering("application/json", answer))
			response, err := clientOf(t).Post(hook.URL, "application/json", strings.NewReader(asked))
			hook.Close()
			if err == nil {
				kept, err := io.ReadAll(response.Body)
				if err != nil || !strings.Contains(answer, "patch") && kind == "admission" && len(kept) > 2*maxText {
					t.Errorf("%s: %d bytes are kept, %v", name, len(kept), err)
				}
				_ = response.Body.Close()
			}
			if refused := tc.refused || kind == "conversion" && len(answer) > maxResult; (err != nil) != refused || err != nil && !strings.Contains(err.Error(), "shorten its messages") {
				t.Errorf("%s of %s: got %.200v", name, kind, err)
			}
		}
	}
}

// TestOtherProtocol checks that nobody waits for the end of a connection that is no answer.
func TestOtherProtocol(t *testing.T) {
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
	}))
	defer hook.Close()
	response, err := clientOf(t).Post(hook.URL, "application/json", strings.NewReader("{}"))
	if err == nil {
		_ = response.Body.Close()
	}
	if !errors.Is(err, errProtocol) {
		t.Errorf("got %v", err)
	}
}

// TestNoAnswer checks that there is none of a webhook that is not there.
func TestNoAnswer(t *testing.T) {
	hook := httptest.NewServer(http.NotFoundHandler())
	hook.Close()
	if response, err := clientOf(t).Get(hook.URL); err == nil {
		_ = response.Body.Close()
		t.Error("got an answer")
	}
}

// endless is bytes without end.
type endless struct{}

// Read implements io.Reader.
func (endless) Read(p []byte) (int, error) { return len(p), nil }
