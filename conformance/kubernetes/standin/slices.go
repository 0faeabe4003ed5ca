package standin

import (
	"context"
	"errors"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// lookAtServices keeps one EndpointSlice for each service with a selector, and removes those of services that are gone.
func (s *Standin) lookAtServices(ctx context.Context) error {
	var failed []error
	kept := map[string]bool{}
	for _, service := range s.services.all() {
		if service.Spec.Selector == nil || service.DeletionTimestamp != nil {
			continue
		}
		kept[service.Namespace+"/"+sliceName(service)] = true
		failed = append(failed, s.keepSlice(ctx, service))
	}
	for _, slice := range s.slices.all() {
		if slice.Labels[discovery.LabelManagedBy] == signature && !kept[slice.Namespace+"/"+slice.Name] {
			err := s.client.DiscoveryV1().EndpointSlices(slice.Namespace).Delete(ctx, slice.Name, meta.DeleteOptions{})
			failed = append(failed, ignoreOld(err))
		}
	}
	return errors.Join(failed...)
}

func (s *Standin) keepSlice(ctx context.Context, service *core.Service) error {
	wanted := s.sliceOf(service)
	client := s.client.DiscoveryV1().EndpointSlices(service.Namespace)
	seen := s.slices.named(service.Namespace, wanted.Name)
	if seen == nil {
		_, err := client.Create(ctx, wanted, meta.CreateOptions{})
		return ignoreOld(err)
	}
	if sameSlice(seen, wanted) {
		return nil
	}
	wanted.ResourceVersion = seen.ResourceVersion
	_, err := client.Update(ctx, wanted, meta.UpdateOptions{})
	return ignoreOld(err)
}

func sameSlice(seen, wanted *discovery.EndpointSlice) bool {
	return equality.Semantic.DeepEqual(seen.Endpoints, wanted.Endpoints) &&
		equality.Semantic.DeepEqual(seen.Ports, wanted.Ports) &&
		equality.Semantic.DeepEqual(seen.Labels, wanted.Labels)
}

func (s *Standin) sliceOf(service *core.Service) *discovery.EndpointSlice {
	pods := s.pods.selected(service.Namespace, service.Spec.Selector)
	pods = slices.DeleteFunc(pods, func(pod *core.Pod) bool { return pod.Status.PodIP == "" })
	slices.SortFunc(pods, func(a, b *core.Pod) int { return strings.Compare(a.Name, b.Name) })
	slice := &discovery.EndpointSlice{
		ObjectMeta: meta.ObjectMeta{
			Name:            sliceName(service),
			Labels:          map[string]string{},
			OwnerReferences: []meta.OwnerReference{*meta.NewControllerRef(service, core.SchemeGroupVersion.WithKind("Service"))},
		},
		AddressType: discovery.AddressTypeIPv4,
	}
	for key, value := range service.Labels {
		slice.Labels[key] = value
	}
	slice.Labels[discovery.LabelServiceName] = service.Name
	slice.Labels[discovery.LabelManagedBy] = signature
	for _, pod := range pods {
		slice.Endpoints = append(slice.Endpoints, endpoint(service, pod))
	}
	if len(pods) > 0 {
		slice.Ports = ports(service, pods[0])
	}
	return slice
}

func sliceName(service *core.Service) string { return service.Name + "-" + signature }

func endpoint(service *core.Service, pod *core.Pod) discovery.Endpoint {
	serving := isReady(pod)
	terminating := pod.DeletionTimestamp != nil
	ready := service.Spec.PublishNotReadyAddresses || serving && !terminating
	node := pod.Spec.NodeName
	return discovery.Endpoint{
		Addresses:  []string{pod.Status.PodIP},
		Conditions: discovery.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating},
		NodeName:   &node,
		TargetRef:  &core.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
	}
}

// ports finds named ones in a pod: all pods of a service are taken to give a name the same number.
func ports(service *core.Service, pod *core.Pod) []discovery.EndpointPort {
	var found []discovery.EndpointPort
	for _, port := range service.Spec.Ports {
		number := port.TargetPort.IntVal
		if port.TargetPort.Type == intstr.String {
			number = namedPort(pod, port.TargetPort.StrVal, port.Protocol)
		}
		if number == 0 {
			continue
		}
		protocol := port.Protocol
		name := port.Name
		found = append(found, discovery.EndpointPort{
			Name: &name, Port: &number, Protocol: &protocol, AppProtocol: port.AppProtocol,
		})
	}
	return found
}

// namedPort is 0 where no container has the port.
func namedPort(pod *core.Pod, name string, protocol core.Protocol) int32 {
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == name && port.Protocol == protocol {
				return port.ContainerPort
			}
		}
	}
	return 0
}
