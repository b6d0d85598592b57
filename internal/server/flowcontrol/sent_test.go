package flowcontrol

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// TestUnreadAnswers checks that an answer ends which takes much longer than a request may, unless the request lasts.
func TestUnreadAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		takes time.Duration
		lasts bool
		ends  bool
	}{
		"one that is not read":           {takes: time.Hour, ends: true},
		"one that is read":               {takes: time.Minute},
		"one that may last, is not read": {takes: time.Hour, lasts: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newResponse(true)
				WithSent(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
					if tc.lasts {
						sentFrom(req.Context()).lasts()
					}
					time.Sleep(tc.takes)
				}), time.Minute).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
				time.Sleep(time.Hour)
				synctest.Wait()
				if ended := len(w.deadlines) > 0; ended != tc.ends {
					t.Errorf("it is ended: %t", ended)
				}
			})
		})
	}
}
