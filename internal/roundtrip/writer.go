package roundtrip

import (
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

// OnHeader returns a writer of an answer that calls do with the status before the header is sent.
func OnHeader(w http.ResponseWriter, do func(status int)) http.ResponseWriter {
	return responsewriter.WrapForHTTP1Or2(&headWriter{ResponseWriter: w, do: do})
}

type headWriter struct {
	http.ResponseWriter
	do    func(status int)
	begun bool
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (w *headWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *headWriter) WriteHeader(status int) {
	if !w.begun {
		w.begun = true
		w.do(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *headWriter) Write(p []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}
