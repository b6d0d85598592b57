package filters

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// maxHeaders bounds, in bytes, the headers of a request: those of a watch stay as long as it does.
	maxHeaders = 64 << 10
	// maxImpersonated is how many groups and other values a request may impersonate. Each is authorized by itself, before
	// the request has a seat. The server gives users of Keystone as many as 1,024.
	maxImpersonated = 1280
)

// checkHeaders returns an error if a request has more headers than may be kept, or authorized.
func checkHeaders(headers http.Header) error {
	size, impersonated := 0, 0
	for name, values := range headers {
		for _, value := range values {
			size += len(name) + len(value)
		}
		if strings.HasPrefix(name, "Impersonate-") {
			impersonated += len(values)
		}
	}
	switch {
	case size > maxHeaders:
		return tooLong(http.StatusRequestHeaderFieldsTooLarge, "the headers have %d bytes, and may have %d", size, maxHeaders)
	case impersonated > maxImpersonated:
		return tooLong(http.StatusRequestHeaderFieldsTooLarge, "the request impersonates %d groups and other values, and may impersonate %d", impersonated, maxImpersonated)
	default:
		return nil
	}
}

// impersonatedExtras returns the extras of the user that a request impersonates, as upstream's impersonation makes
// them: keys in lower case, of which several headers may write the same in other ways.
func impersonatedExtras(headers http.Header) map[string][]string {
	var extras map[string][]string
	for name, values := range headers {
		key, is := strings.CutPrefix(name, authenticationv1.ImpersonateUserExtraHeaderPrefix)
		if !is {
			continue
		}
		key = strings.ToLower(key)
		if decoded, err := url.PathUnescape(key); err == nil {
			key = decoded
		}
		if extras == nil {
			extras = map[string][]string{}
		}
		extras[key] = append(extras[key], values...)
	}
	return extras
}

// tooLong returns the error of a request of which something before its body is too long.
func tooLong(code int32, format string, args ...any) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: metav1.StatusReasonBadRequest,
		Message: fmt.Sprintf(format, args...),
	}}
}
