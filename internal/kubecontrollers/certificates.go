package kubecontrollers

import (
	"context"

	"k8s.io/kubernetes/pkg/controller/certificates"
	"k8s.io/kubernetes/pkg/controller/certificates/cleaner"

	"github.com/tenantry/tenantry/internal/kubecontrollers/signing"
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
