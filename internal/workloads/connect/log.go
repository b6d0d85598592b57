package connect

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	genericrest "k8s.io/apiserver/pkg/registry/generic/rest"
	"k8s.io/apiserver/pkg/registry/rest"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/features"
	podrest "k8s.io/kubernetes/pkg/registry/core/pod/rest"
)

// logs serves pods/log.
type logs struct {
	// LogREST is upstream's, for its metadata only.
	*podrest.LogREST
	host *host
}

var _ rest.GetterWithOptions = &logs{}

// Get implements rest.GetterWithOptions.
func (l *logs) Get(ctx context.Context, name string, obj runtime.Object) (runtime.Object, error) {
	options, ok := obj.(*core.PodLogOptions)
	if !ok {
		return nil, fmt.Errorf("unexpected options %T", obj)
	}
	if options.InsecureSkipTLSVerifyBackend {
		return nil, apierrors.NewBadRequest("insecureSkipTLSVerifyBackend: the host cluster's nodes are verified in any case; leave it out")
	}
	split := utilfeature.DefaultFeatureGate.Enabled(features.PodLogsQuerySplitStreams)
	if split && options.Stream == nil {
		options.Stream = new(core.LogStreamAll)
	}
	if errs := validation.ValidatePodLogOptions(options, split); len(errs) > 0 {
		return nil, apierrors.NewInvalid(core.Kind("PodLogOptions"), name, errs)
	}
	if _, err := mayBegin(ctx, &l.host.logs, "logs of"); err != nil {
		return nil, err
	}
	to, err := l.host.locate(ctx, name, "log", options)
	if err != nil {
		return nil, err
	}
	streamer := &genericrest.LocationStreamer{
		Location: to.location, Transport: l.host.transport, ContentType: "text/plain", Flush: options.Follow,
		ResponseChecker: to.refusals, RedirectChecker: genericrest.PreventRedirects,
	}
	return &counted{LocationStreamer: streamer, host: l.host}, nil
}
