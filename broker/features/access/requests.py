"""Users and policies as operators see and change them: 3001 to 3010 (AdminBrokerProcessor)."""

import logging
from typing import Any, Protocol

import msgspec

from aerobee.broker.features.access.kept_book import KeptBook
from aerobee.remoting.bodies import AclInfo, UserInfo, decode_body, encode_body
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.access import (
    DeleteAclRequest,
    ListAclsRequest,
    ListUsersRequest,
    SubjectRequest,
    UserRequest,
)
from aerobee.remoting.net.access.guard import name_of
from aerobee.remoting.net.access.users import UserType, refused, user_type
from aerobee.remoting.net.routes import Outcome, Reply, Request, Routes

log = logging.getLogger(__name__)

AnyRequest = Request[Any]


class Standing(Protocol):
    """What somebody may do who changes users."""

    def may_all(self, request: AnyRequest) -> bool:
        """Whether the request is from a super user, or where none is asked, from an operator."""

    def may_change(self, request: AnyRequest) -> bool:
        """Whether it may be served at all: it was asked, or comes from an operator."""


class BookRequests:
    """Answers when what was changed is on the disk."""

    def __init__(self, kept: KeptBook, standing: Standing) -> None:
        self._kept = kept
        self._book = kept.book
        self._standing = standing
        self.routes: Routes[Any] = Routes("access")
        on, code = self.routes.on, RequestCode
        on(code.AUTH_CREATE_USER, UserRequest)(self._create_user)
        on(code.AUTH_UPDATE_USER, UserRequest)(self._update_user)
        on(code.AUTH_DELETE_USER, UserRequest)(self._delete_user)
        on(code.AUTH_GET_USER, UserRequest)(self._get_user)
        on(code.AUTH_LIST_USER, ListUsersRequest)(self._list_users)
        on(code.AUTH_CREATE_ACL, SubjectRequest)(self._put_acl)
        on(code.AUTH_UPDATE_ACL, SubjectRequest)(self._put_acl)
        on(code.AUTH_DELETE_ACL, DeleteAclRequest)(self._delete_acl)
        on(code.AUTH_GET_ACL, SubjectRequest)(self._get_acl)
        on(code.AUTH_LIST_ACL, ListAclsRequest)(self._list_acls)

    async def _create_user(self, _: object, request: Request[UserRequest]) -> Outcome:
        self._check_caller(request)
        name, info = _user(request)
        if user_type(info) is UserType.SUPER and not self._standing.may_all(request):
            raise _only_super("create")
        user = self._book.create_user(info)
        return await self._changed(request, f"user {name!r} created, {user.type.value}")

    async def _update_user(self, _: object, request: Request[UserRequest]) -> Outcome:
        self._check_caller(request)
        name, info = _user(request)
        may_all = self._standing.may_all(request)
        if user_type(info) is UserType.SUPER and not may_all:
            raise _only_super("update")
        self._check_super(name, may_all=may_all)
        user = self._book.update_user(info)
        told = f"user {name!r} changed, {user.type.value}, {user.status.value}"
        return await self._changed(request, told)

    async def _delete_user(self, _: object, request: Request[UserRequest]) -> Outcome:
        self._check_caller(request)
        name = request.header.username or ""
        if not name.strip():
            raise refused("username can not be blank")
        self._check_super(name, may_all=self._standing.may_all(request))
        self._book.delete_user(name)
        return await self._changed(request, f"user {name!r} deleted")

    def _get_user(self, _: object, request: Request[UserRequest]) -> Outcome:
        user = self._book.users.get(_named(request))
        if user is None:
            return Reply()
        return Reply(body=encode_body(user.info(secret=self._shows_secrets(request))))

    def _list_users(self, _: object, request: Request[ListUsersRequest]) -> Outcome:
        secret = self._shows_secrets(request)
        found = self._book.list_users(request.header.filter or "")
        return _listed([user.info(secret=secret) for user in found])

    async def _put_acl(self, _: object, request: Request[SubjectRequest]) -> Outcome:
        self._check_caller(request)
        if not request.command.body:
            raise RequestError(ResponseCode.SYSTEM_ERROR, "The body of acl is null")
        info = decode_body(AclInfo, request.command.body)
        subject = request.header.subject or ""
        self._book.put_acl(subject, info)
        return await self._changed(request, f"policies of {info.subject or subject!r} changed")

    async def _delete_acl(self, _: object, request: Request[DeleteAclRequest]) -> Outcome:
        self._check_caller(request)
        header = request.header
        self._book.delete_acl(header.subject or "", header.policy_type, header.resource)
        told = f"policies of {header.subject!r} deleted, {header.resource or 'all'!r}"
        return await self._changed(request, told)

    def _get_acl(self, _: object, request: Request[SubjectRequest]) -> Outcome:
        info = self._book.acl(request.header.subject or "")
        return Reply(body=encode_body(info) if info is not None else b"")

    def _list_acls(self, _: object, request: Request[ListAclsRequest]) -> Outcome:
        header = request.header
        found = self._book.list_acls(header.subject_filter or "", header.resource_filter or "")
        return _listed(found)

    def _check_caller(self, request: AnyRequest) -> None:
        """Refuse strangers where nobody is asked who he is."""
        if not self._standing.may_change(request):
            raise refused(
                "without authentication users and policies are changed from the broker's own"
                " machine, or from a network that adminAllowedNetworks names"
            )

    def _check_super(self, name: str, *, may_all: bool) -> None:
        """Keep all but super users from changing one."""
        user = self._book.users.get(name)
        if user is not None and user.is_super and not may_all:
            raise refused("The super user can only be update by super user")

    def _shows_secrets(self, request: AnyRequest) -> bool:
        """Whether passwords go out: to super users, who copy users to other brokers by them."""
        named = name_of(request.connection, request.command)
        return bool(named) and self._standing.may_all(request)

    async def _changed(self, request: AnyRequest, what: str) -> Outcome:
        """Answer when the change is on the disk, and say who made it."""
        by, remote = name_of(request.connection, request.command), request.connection.remote
        log.info("access_changed by=%r remote=%s what=%s", by, remote, what)
        await self._kept.flush()
        return Reply()


def _named(request: Request[UserRequest]) -> str:
    name = request.header.username or ""
    if not name.strip():
        raise RequestError(ResponseCode.INVALID_PARAMETER, "The username is blank")
    return name


def _user(request: Request[UserRequest]) -> tuple[str, UserInfo]:
    """Return the user that the header names, with what the body says of him."""
    name = _named(request)
    return name, msgspec.structs.replace(decode_body(UserInfo, request.command.body), username=name)


def _only_super(what: str) -> RequestError:
    return RequestError(
        ResponseCode.SYSTEM_ERROR, f"The super user can only be {what} by super user"
    )


def _listed(found: "list[UserInfo] | list[AclInfo]") -> Reply:
    """Return a list as JSON; RocketMQ answers nothing where it is empty."""
    return Reply(body=b"[%b]" % b",".join(map(encode_body, found)) if found else b"")
