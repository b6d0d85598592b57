package webtoken

import (
	"encoding/base64"
	"encoding/json"
	"testing"
	"time"
)

func token(payload string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + "."
}

func TestText(t *testing.T) {
	for payload, want := range map[string]string{
		`{"iss":"a"}`: "a", `{"iss":"a","iss":"b"}`: "b", `{"iss":"a","other":"b"}`: "a",
		`{"iss":"a","ISS":"b"}`: "", `{"iss":"a","iſs":"b"}`: "", `{"Iss":"a"}`: "",
		`{"iss":1}`: "", `{"iss":["a"]}`: "", `{"iss":null}`: "", `{}`: "", `[]`: "", ``: "", `null`: "", `{"iss":"a"}x`: "",
	} {
		if got := Parse(token(payload)).Text("iss"); got != want {
			t.Errorf("%s: got %q, want %q", payload, got, want)
		}
	}
	for _, malformed := range []string{"", ".", "..", "a.!.b", token(`{"iss":"a"}`) + ".d", "e30.eyJpc3MiOiJhIn0"} {
		if got := Parse(malformed).Text("iss"); got != "" {
			t.Errorf("%q says %q", malformed, got)
		}
	}
}

func TestTime(t *testing.T) {
	for payload, want := range map[string]time.Time{
		`{"iat":5}`: time.Unix(5, 0), `{"iat":5.9}`: time.Unix(5, 0), `{"iat":"5"}`: {}, `{"iat":5,"IAT":6}`: {}, `{}`: {},
	} {
		if got := Parse(token(payload)).Time("iat"); !got.Equal(want) {
			t.Errorf("%s: got %s, want %s", payload, got, want)
		}
	}
}

// FuzzText checks that a claim is what encoding/json makes of it, which is how
// those who verify tokens read it, or not there.
func FuzzText(f *testing.F) {
	for _, payload := range []string{`{"iss":"a"}`, `{"iss":"a","ISS":"b"}`, `{"iss":"a","iſs":"b"}`, `{"ISS":"a"}`, `[`, `{"iss":{}}`, `{"iss":"a","iss":1}`} {
		f.Add(payload)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		got := Parse(token(payload)).Text("iss")
		var verified struct {
			Issuer string `json:"iss"`
		}
		err := json.Unmarshal([]byte(payload), &verified)
		if got != "" && (err != nil || got != verified.Issuer) {
			t.Errorf("got %q, upstream %q, %v", got, verified.Issuer, err)
		}
	})
}
