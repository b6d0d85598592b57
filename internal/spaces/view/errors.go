package view

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tenantry/tenantry/internal/tenant"
)

// PlainError returns err with the plain names of the space of n in place of
// flattened ones. An API error stays one; any other error is wrapped.
func PlainError(err error, n tenant.Name) error {
	if err == nil || !n.IsSpace() {
		return err
	}
	if status, ok := err.(*apierrors.StatusError); ok { //nolint:errorlint // around a wrapped one is more text
		return plainStatus(status, n)
	}
	if message := tenant.PlainText(err.Error(), n); message != err.Error() {
		return &plainError{message: message, err: err}
	}
	return err
}

func plainStatus(err *apierrors.StatusError, n tenant.Name) error {
	status := *err.ErrStatus.DeepCopy()
	status.Message = tenant.PlainText(status.Message, n)
	if details := status.Details; details != nil {
		details.Name = tenant.PlainText(details.Name, n)
		for i := range details.Causes {
			details.Causes[i].Message = tenant.PlainText(details.Causes[i].Message, n)
		}
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// plainError is an error with another message. It hides a wrapped API error, whose status
// has the flattened names.
type plainError struct {
	message string
	err     error
}

func (e *plainError) Error() string { return e.message }

// Unwrap returns the wrapped error, unless that would show flattened names.
func (e *plainError) Unwrap() error {
	if _, is := errors.AsType[*apierrors.StatusError](e.err); is {
		return nil
	}
	return e.err
}
