package keystone

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
)

// ErrNotValid means that Keystone does not know a token, or not any more.
var ErrNotValid = errors.New("the token is not valid")

// Error is a failure of Keystone, of the way there or of the service account. It says
// nothing about the token that was asked about.
type Error struct {
	// Doing is what failed.
	Doing string
	// Status is that of Keystone's answer, zero without one.
	Status int
	// RequestID is the id by which Keystone has logged the request.
	RequestID string
	// Hint is the way out, empty if none is known.
	Hint string
	// Cause is set if there is no Status.
	Cause error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Status == 0 {
		return fmt.Sprintf("%s: %v", e.Doing, e.Cause)
	}
	text := fmt.Sprintf("%s: status %d", e.Doing, e.Status)
	if e.RequestID != "" {
		text += ", request " + e.RequestID
	}
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// ErrNoAnswer means that Keystone has not answered in time. It may have done what it was asked
// for.
var ErrNoAnswer = errors.New("no answer in time")

var (
	errAnswer   = errors.New("the answer is not one of Keystone, or larger than 1 MiB")
	errRedirect = errors.New("the answer is a redirect to another host")
)

// failure returns an Error for one of gophercloud, whose texts contain bodies.
func failure(doing string, err error) *Error {
	var own *Error
	var relogin *gophercloud.ErrUnableToReauthenticate
	var answer gophercloud.ErrUnexpectedResponseCode
	var transport *url.Error
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &relogin):
		return failure(doing, relogin.ErrReauth)
	case errors.As(err, &answer):
		found := &Error{Doing: doing, Status: answer.Actual, RequestID: requestID(answer.ResponseHeader)}
		if answer.Actual == http.StatusForbidden && doing != loggingIn {
			found.Hint = "the account of the clouds file may not: it needs the role reader on the system, and system_scope: all in its cloud"
		}
		return found
	case errors.Is(err, errRedirect): // the error has the address, which may have anything
		return &Error{Doing: doing, Cause: errRedirect}
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &transport) && transport.Timeout():
		return &Error{Doing: doing, Cause: ErrNoAnswer}
	case transport != nil:
		return &Error{Doing: doing, Cause: transport.Err}
	default:
		return &Error{Doing: doing, Cause: errAnswer}
	}
}

// requestID returns a header that is written into logs, if it looks like an id.
func requestID(header http.Header) string {
	id := header.Get("X-Openstack-Request-Id")
	if !isID(id) {
		return ""
	}
	return id
}

// refusalOf returns the status and the text of an answer that is Keystone's own, zero for other errors: what stands in
// front of it may answer 401, and 404 while it is away.
func refusalOf(err error) (status int, message string) {
	var body struct {
		Error struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	answer, is := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err)
	if !is || json.Unmarshal(answer.Body, &body) != nil || body.Error.Code != answer.Actual {
		return 0, ""
	}
	return answer.Actual, body.Error.Message
}

// isNotValid reports whether Keystone says that there is no such token. Tokens of a trust whose giver is disabled or
// has lost a role are forbidden, by an error that does not name the action as that does of an
// account without the right to ask.
func isNotValid(err error) bool {
	status, message := refusalOf(err)
	return status == http.StatusNotFound || status == http.StatusForbidden && message != "" && !strings.Contains(message, "identity:")
}
