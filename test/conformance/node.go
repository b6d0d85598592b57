package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/test/harness"
)

// nodeName is what pods are bound to.
const nodeName = "node"

// node does for a cluster what its nodes would: it runs the webhooks that tests
// deploy, as processes, calls all other pods running, and forwards what is sent to
// the cluster IP of a Service to a process. It needs a network of its own.
type node struct {
	client  kubernetes.Interface
	agnhost string
	dir     string

	mu        sync.Mutex
	processes map[types.UID]*podProcess
	services  map[types.UID]context.CancelFunc
}

// podProcess is what runs for a pod.
type podProcess struct {
	pod  *corev1.Pod
	port string // empty if there is no process
	stop context.CancelFunc
}

// startNode runs a node for the cluster of a kubeconfig until ctx ends.
func startNode(ctx context.Context, kubeconfig, agnhost, dir string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	n := &node{client: client, agnhost: agnhost, dir: dir, processes: map[types.UID]*podProcess{}, services: map[types.UID]context.CancelFunc{}}
	factory := informers.NewSharedInformerFactory(client, 0)
	handle(ctx, factory.Core().V1().Pods().Informer(), n.podChanged, n.podGone)
	handle(ctx, factory.Core().V1().Services().Informer(), n.serviceChanged, n.serviceGone)
	factory.StartWithContext(ctx)
	return nil
}

// handle has changes of objects looked at one after another.
func handle[T any](ctx context.Context, informer cache.SharedIndexInformer, changed func(context.Context, T) error, gone func(T)) {
	look := func(obj any) {
		if o, ok := obj.(T); ok {
			if err := changed(ctx, o); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "node:", err)
			}
		}
	}
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{ // fails only for an informer that has ended
		AddFunc:    look,
		UpdateFunc: func(_, obj any) { look(obj) },
		DeleteFunc: func(obj any) {
			if o, ok := objects.LastKnown[T](obj); ok {
				gone(o)
			}
		},
	})
}

func (n *node) podChanged(ctx context.Context, pod *corev1.Pod) error {
	switch {
	case pod.DeletionTimestamp != nil:
		n.podGone(pod)
		err := n.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
		})
		return unlessChanged(err)
	case pod.Status.Phase != corev1.PodPending || len(pod.Spec.NodeSelector) > 0: // by which tests keep pods pending
		return nil
	case pod.Spec.NodeName == "":
		err := n.client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: nodeName},
		}, metav1.CreateOptions{})
		return unlessChanged(err)
	}
	if err := n.runPod(ctx, pod); err != nil {
		return fmt.Errorf("running pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	running := pod.DeepCopy()
	now := metav1.Now()
	running.Status.Phase, running.Status.StartTime = corev1.PodRunning, &now
	running.Status.PodIP = "192.0.2.1"
	running.Status.PodIPs = []corev1.PodIP{{IP: running.Status.PodIP}}
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		running.Status.Conditions = append(running.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	for _, c := range pod.Spec.Containers {
		running.Status.ContainerStatuses = append(running.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, Started: new(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	_, err := n.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, running, metav1.UpdateOptions{})
	return unlessChanged(err)
}

// unlessChanged leaves out that a pod has changed, and is looked at again, or goes.
func unlessChanged(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return err
}

// runPod runs the process of a pod that has one.
func (n *node) runPod(ctx context.Context, pod *corev1.Pod) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.processes[pod.UID] != nil {
		return nil
	}
	ctx, stop := context.WithCancel(ctx)
	process := &podProcess{pod: pod, stop: stop}
	n.processes[pod.UID] = process
	container := &pod.Spec.Containers[0]
	if !strings.Contains(container.Image, "/agnhost:") || len(container.Args) == 0 || !strings.HasSuffix(container.Args[0], "webhook") {
		return nil
	}
	dir := filepath.Join(n.dir, string(pod.UID))
	if err := n.writeSecrets(ctx, pod, dir); err != nil {
		return err
	}
	free, err := harness.FreePort()
	if err != nil {
		return err
	}
	port := strconv.Itoa(free)
	args := []string{container.Args[0]}
	for _, arg := range container.Args[1:] {
		for _, mount := range container.VolumeMounts {
			arg = strings.ReplaceAll(arg, mount.MountPath, filepath.Join(dir, mount.Name))
		}
		if strings.HasPrefix(arg, "--port=") {
			arg = "--port=" + port
		}
		args = append(args, arg)
	}
	command, err := harness.Start(ctx, dir, n.agnhost, args...)
	if err != nil {
		return err
	}
	go func() { _ = command.Wait() }()
	process.port = port
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
		connection, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			return false, nil
		}
		return true, connection.Close()
	})
}

// writeSecrets writes the Secrets that are volumes of a pod below dir.
func (n *node) writeSecrets(ctx context.Context, pod *corev1.Pod, dir string) error {
	for _, volume := range pod.Spec.Volumes {
		if volume.Secret == nil {
			continue
		}
		secret, err := n.client.CoreV1().Secrets(pod.Namespace).Get(ctx, volume.Secret.SecretName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(dir, volume.Name), 0o700); err != nil {
			return err
		}
		for name, data := range secret.Data {
			if err := os.WriteFile(filepath.Join(dir, volume.Name, filepath.Base(name)), data, 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

func (n *node) podGone(pod *corev1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if process := n.processes[pod.UID]; process != nil {
		process.stop()
		delete(n.processes, pod.UID)
	}
}

// serviceChanged listens at the cluster IP of a new Service.
func (n *node) serviceChanged(ctx context.Context, service *corev1.Service) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.services[service.UID] != nil || len(service.Spec.Selector) == 0 || net.ParseIP(service.Spec.ClusterIP) == nil {
		return nil
	}
	ctx, stop := context.WithCancel(ctx)
	n.services[service.UID] = stop
	for _, port := range service.Spec.Ports {
		listener, err := net.Listen("tcp", net.JoinHostPort(service.Spec.ClusterIP, fmt.Sprint(port.Port)))
		if err != nil {
			return fmt.Errorf("listening for service %s/%s: %w", service.Namespace, service.Name, err)
		}
		context.AfterFunc(ctx, func() { _ = listener.Close() })
		go n.forward(listener, service)
	}
	return nil
}

func (n *node) serviceGone(service *corev1.Service) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if stop := n.services[service.UID]; stop != nil {
		stop()
		delete(n.services, service.UID)
	}
}

// forward serves the connections to a Service.
func (n *node) forward(listener net.Listener, service *corev1.Service) {
	for {
		from, err := listener.Accept()
		if err != nil {
			return
		}
		to, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", n.portOf(service)), time.Second)
		if err != nil {
			_ = from.Close()
			continue
		}
		go pipe(from, to)
		go pipe(to, from)
	}
}

func pipe(from, to net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
}

// portOf returns the port of a process of a Service, or one that nobody has.
func (n *node) portOf(service *corev1.Service) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	selector := labels.SelectorFromSet(service.Spec.Selector)
	for _, process := range n.processes {
		if process.port != "" && process.pod.Namespace == service.Namespace && selector.Matches(labels.Set(process.pod.Labels)) {
			return process.port
		}
	}
	return "1"
}
