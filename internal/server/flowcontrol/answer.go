package flowcontrol

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// rejection replaces the answer of the handler. Upstream's filters would answer otherwise: 403 for any error of an authorizer, 429 for a late
// body without a seat.
type rejection struct {
	atomic.Pointer[apierrors.StatusError]
}

// rejectingWriter writes the answer to a request, or its rejection.
type rejectingWriter struct {
	http.ResponseWriter
	// rejection returns the one that there is when the answer begins, or nil.
	rejection       func() *apierrors.StatusError
	begun, rejected bool
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (a *rejectingWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (a *rejectingWriter) WriteHeader(code int) {
	var rejection *apierrors.StatusError
	if !a.begun {
		rejection = a.rejection()
	}
	if a.begun = true; rejection == nil {
		a.ResponseWriter.WriteHeader(code)
		return
	}
	a.rejected = true
	for name := range a.Header() {
		if strings.HasPrefix(name, "Content-") || name == "Retry-After" {
			a.Header().Del(name)
		}
	}
	if details := rejection.ErrStatus.Details; details != nil && details.RetryAfterSeconds > 0 {
		a.Header().Set("Retry-After", strconv.Itoa(int(details.RetryAfterSeconds)))
	}
	a.Header().Set("Content-Type", runtime.ContentTypeJSON)
	a.ResponseWriter.WriteHeader(int(rejection.ErrStatus.Code))
	status := rejection.ErrStatus
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	_ = json.NewEncoder(a.ResponseWriter).Encode(status) // to who may have gone
}

// Write implements http.ResponseWriter.
func (a *rejectingWriter) Write(p []byte) (int, error) {
	if !a.begun {
		a.WriteHeader(http.StatusOK)
	}
	if a.rejected {
		return len(p), nil
	}
	return a.ResponseWriter.Write(p)
}
