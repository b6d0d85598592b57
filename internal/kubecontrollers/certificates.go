package kubecontrollers

import (
	"context"
	"time"

	"k8s.io/kubernetes/pkg/controller/certificates"
	"k8s.io/kubernetes/pkg/controller/certificates/cleaner"
	"k8s.io/utils/clock"

	"github.com/tenantry/tenantry/internal/signing"
)

// newSigning issues the certificates of approved requests, if there is an authority.
func newSigning(ctx context.Context, e *environment) (func(context.Context), error) {
	if e.signing.CertFile == "" {
		return func(context.Context) {}, nil
	}
	signer := &signing.Signer{Config: e.signing, Client: e.client}
	c := certificates.NewCertificateController(ctx, "csrsigning", e.client,
		e.informers.Certificates().V1().CertificateSigningRequests(), signer.Handle)
	return func(ctx context.Context) { c.Run(ctx, e.workers) }, nil
}

// newRequestCleaner deletes requests that are over.
func newRequestCleaner(_ context.Context, e *environment) (func(context.Context), error) {
	c := cleaner.NewCSRCleanerController(e.client.CertificatesV1().CertificateSigningRequests(),
		e.informers.Certificates().V1().CertificateSigningRequests())
	return func(ctx context.Context) { c.Run(ctx, e.workers) }, nil
}

// Upstream's controller manager has the same.
const (
	podRequestsLast    = 15 * time.Minute
	podRequestsChecked = 5 * time.Minute
)

// newPodRequestCleaner deletes the requests of pods that nobody has answered in time.
func newPodRequestCleaner(_ context.Context, e *environment) (func(context.Context), error) {
	c := cleaner.NewPCRCleanerController(e.client, e.informers.Certificates().V1().PodCertificateRequests(),
		clock.RealClock{}, podRequestsLast, podRequestsChecked)
	return func(ctx context.Context) { c.Run(ctx, e.workers) }, nil
}
