package roundtrip

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
)

var errTest = errors.New("test")

func TestEnding(t *testing.T) {
	for name, tc := range map[string]struct{ err error }{"an answer": {}, "none": {errTest}} {
		t.Run(name, func(t *testing.T) {
			ended := 0
			response, err := Ending(Func(func(*http.Request) (*http.Response, error) {
				return &http.Response{Body: io.NopCloser(strings.NewReader("text"))}, tc.err
			}), nil, func() { ended++ })
			if !errors.Is(err, tc.err) {
				t.Fatal(err)
			}
			if err == nil {
				if ended > 0 {
					t.Error("it ends before the answer is read")
				}
				if err := response.Body.Close(); err != nil {
					t.Error(err)
				}
			}
			if ended != 1 {
				t.Errorf("it ends %d times", ended)
			}
		})
	}
}

func TestBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		body, want string
		err        error
	}{
		"nothing":           {},
		"as much as may be": {body: "four", want: "four"},
		"more":              {body: "fours", want: "four", err: errTest},
		"much more":         {body: strings.Repeat("four", 1000), want: "four", err: errTest},
	} {
		t.Run(name, func(t *testing.T) {
			for _, reader := range []io.Reader{strings.NewReader(tc.body), iotest.OneByteReader(strings.NewReader(tc.body)), iotest.DataErrReader(strings.NewReader(tc.body))} {
				body := &Bounded{ReadCloser: io.NopCloser(reader), Left: 4, TooLarge: func() error { return errTest }}
				got, err := io.ReadAll(body)
				if string(got) != tc.want || !errors.Is(err, tc.err) {
					t.Errorf("read %.10q, %v; want %q, %v", got, err, tc.want, tc.err)
				}
				if _, err := body.Read(make([]byte, 1)); tc.err != nil && !errors.Is(err, errTest) {
					t.Errorf("and then %v", err)
				}
			}
		})
	}
}

func TestEvents(t *testing.T) {
	for name, tc := range map[string]struct {
		body, want string
		err        error
	}{
		"one by one":      {body: `{"a":1}{"b":"}"}` + "\n", want: `<{"a":1}><{"b":"}"}>`},
		"an error of one": {body: `{"a":1} "wrong" {}`, want: `<{"a":1}>`, err: errTest},
		"none of what is": {body: `"none"{"a":1}`, want: `<{"a":1}>`},
		"cut short":       {body: `{"a":1}{"b`, want: `<{"a":1}>`, err: io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			body := Events(io.NopCloser(strings.NewReader(tc.body)), func(event []byte) ([]byte, error) {
				switch string(event) {
				case `"wrong"`:
					return nil, errTest
				case `"none"`:
					return nil, nil
				}
				return []byte("<" + string(event) + ">"), nil
			})
			got, err := io.ReadAll(iotest.OneByteReader(body))
			if string(got) != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("read %q, %v; want %q, %v", got, err, tc.want, tc.err)
			}
		})
	}
}

// TestOnHeader checks that something is done once before an answer begins, whoever begins it.
func TestOnHeader(t *testing.T) {
	for name, tc := range map[string]struct {
		answer func(http.ResponseWriter)
		want   int
	}{
		"with a status": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusTeapot) }, http.StatusTeapot},
		"with a body":   {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "x") }, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := httptest.NewRecorder()
			var got []int
			w := OnHeader(recorder, func(status int) {
				got = append(got, status)
				recorder.Header().Set("X-Status", "known")
			})
			tc.answer(w)
			_, _ = io.WriteString(w, "more")
			if len(got) != 1 || got[0] != tc.want || recorder.Code != tc.want || recorder.Result().Header.Get("X-Status") != "known" {
				t.Errorf("done for %v before %d with %v", got, recorder.Code, recorder.Result().Header)
			}
		})
	}
}

func TestRestored(t *testing.T) {
	rest := io.NopCloser(strings.NewReader("rest"))
	if got, err := io.ReadAll(Restored([]byte("begin and "), rest)); err != nil || string(got) != "begin and rest" {
		t.Errorf("got %q, %v", got, err)
	}
}
